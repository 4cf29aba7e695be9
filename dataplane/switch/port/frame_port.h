// What the data plane needs from a port: frames in, frames out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "dataplane/engine/packet/lent_frame.h"

namespace tiercast::vswitch {

struct ReceivedFrame {
  std::span<const std::byte> bytes;  // Ethernet without FCS; checksums are complete
  std::int64_t arrival_ns = 0;       // CLOCK_MONOTONIC
  // If the memory is lent, so that `bytes` may be changed; they are then valid until it is taken
  // back or sent, which must happen (engine::LentFrame).
  void* handle = nullptr;
  engine::FrameLender* lender = nullptr;
};

class FramePort {
 public:
  static constexpr unsigned kBatch = 32;  // frames

  virtual ~FramePort() = default;
  virtual const std::string& interface() const = 0;
  // Readable when receive() has something to do; -1: there is none.
  virtual int fd() const = 0;
  // Frames in order of arrival, valid until the next call unless they are lent. Never blocks.
  virtual std::span<const ReceivedFrame> receive() = 0;
  // due_ns: when the frame was due to leave. False if the frame was refused; send_errors() counts
  // it.
  virtual bool send(std::span<const std::byte> frame, std::int64_t due_ns) = 0;
  // The same for a frame in a port's memory. Returns what engine::Output::transmit_lent() returns.
  virtual bool send_lent(const engine::LentFrame& frame, bool /*last*/, std::int64_t due_ns) {
    send(frame.bytes, due_ns);
    return false;
  }
  // Whether frames may be kept back until flush().
  virtual bool keeps_frames() const { return false; }
  // False if some could not leave yet; to be called again soon.
  virtual bool flush() { return true; }
  // Whether the link works now: up, and with a carrier.
  virtual bool link_up() const = 0;
  // Totals since the port was opened: frames lost before receive(), and refused frames.
  virtual std::uint64_t kernel_drops() = 0;
  virtual std::uint64_t send_errors() const = 0;
};

inline constexpr std::string_view kDevicePrefix = "dpdk:";
inline constexpr std::string_view kXdpPrefix = "xdp:";

// Sets the function that opens the device named after kDevicePrefix. tiercast-switch-dpdk sets it
// before any port is opened. tiercast-switch has none, and does not link DPDK.
using DeviceOpener = std::unique_ptr<FramePort> (*)(const std::string& device);
void set_device_opener(DeviceOpener opener);

// Opens a kernel interface, by an AF_XDP socket if its name follows kXdpPrefix, or a device. Throws
// InterfaceError.
std::unique_ptr<FramePort> open_port(const std::string& name);

}  // namespace tiercast::vswitch
