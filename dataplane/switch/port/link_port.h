// A port that is linked to a port of another switch of the same process. A frame reaches the other
// end at the time at which it was due to leave, so no link adds to its lateness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/switch/loop.h"
#include "dataplane/switch/port/frame_port.h"

namespace tiercast::vswitch {

inline constexpr std::string_view kLinkPrefix = "link:";

// Both ends belong to members of one loop.
class LinkPort : public FramePort {
 public:
  // interface: "link:" and the other end, such as "link:s2.3".
  explicit LinkPort(std::string interface) : interface_(std::move(interface)) {}

  // To be called before a frame is sent.
  void connect(LinkPort& peer);
  // The reader gets a turn when frames are due.
  void set_reader(Loop::Member& reader) { reader_ = &reader; }

  const std::string& interface() const override { return interface_; }
  int fd() const override { return -1; }
  // All frames that have come.
  std::span<const ReceivedFrame> receive() override;
  // Refuses a frame if kMostWaiting have not been received, as where frames go round in a circle.
  bool send(std::span<const std::byte> frame, std::int64_t due_ns) override;
  bool link_up() const override { return true; }
  std::uint64_t kernel_drops() override { return 0; }
  std::uint64_t send_errors() const override { return send_errors_; }

 private:
  static constexpr std::size_t kMostWaiting = 4096;

  struct Frames {
    std::vector<std::byte> bytes;
    std::vector<ReceivedFrame> frames;  // their bytes are set when all have come
    std::vector<std::size_t> sizes;
  };

  std::string interface_;
  LinkPort* peer_ = nullptr;
  Loop::Member* reader_ = nullptr;
  Frames arriving_, read_;
  std::uint64_t send_errors_ = 0;
};

// Connects the ends of links as they are opened.
class Links {
 public:
  // The port `self`, such as "s1.2", that is linked to `peer`, such as "s2.3".
  std::unique_ptr<LinkPort> open(const std::string& self, const std::string& peer);

 private:
  std::map<std::string, LinkPort*> opened_;
};

}  // namespace tiercast::vswitch
