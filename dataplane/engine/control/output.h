// What a Switch calls back with: frames that leave, and what the program reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "dataplane/engine/control/control.h"

namespace tiercast::engine {

// Called synchronously from receive() and advance(); must not call back into the Switch. Arguments
// are valid only during the call.
class Output {
 public:
  virtual ~Output() = default;
  // The last bit leaves the far end of the port's wire at due_ns, which is never after the time
  // handed to the call that led here.
  virtual void transmit(std::uint32_t port, std::span<const std::byte> frame,
                        std::int64_t due_ns) = 0;
  // A frame sent to the CPU port, with the program's packet_in header in front.
  virtual void packet_in(std::span<const std::byte> frame) = 0;

  // A list of digests that is full, or old enough (DigestConfig). False: nobody took the list, so
  // its digests count as dropped and may come again.
  virtual bool digest(const DigestList&) { return false; }
  // Entries that no packet has hit for their idle_timeout_ns since they were last hit, written or
  // reported.
  virtual void entries_expired(std::string_view /*table*/, std::span<const TableEntry>) {}
  // The text of a log_msg().
  virtual void log_message(std::string_view) {}
  // An assert() or assume() that did not hold, and its place in the P4 source: the packet is
  // dropped.
  virtual void assertion_failed(std::string_view) {}
};

}  // namespace tiercast::engine
