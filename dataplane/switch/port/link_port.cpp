#include "dataplane/switch/port/link_port.h"

#include <utility>

namespace tiercast::vswitch {

void LinkPort::connect(LinkPort& peer) {
  peer_ = &peer;
  peer.peer_ = this;
}

std::span<const ReceivedFrame> LinkPort::receive() {
  std::swap(arriving_, read_);
  arriving_.bytes.clear();
  arriving_.frames.clear();
  arriving_.sizes.clear();
  const std::byte* bytes = read_.bytes.data();
  for (std::size_t i = 0; i < read_.frames.size(); ++i) {
    read_.frames[i].bytes = {bytes, read_.sizes[i]};
    bytes += read_.sizes[i];
  }
  return read_.frames;
}

bool LinkPort::send(std::span<const std::byte> frame, std::int64_t due_ns) {
  Frames& there = peer_->arriving_;
  if (there.sizes.size() == kMostWaiting) {
    ++send_errors_;
    return false;
  }
  there.bytes.insert(there.bytes.end(), frame.begin(), frame.end());
  there.sizes.push_back(frame.size());
  there.frames.push_back({{}, due_ns});
  peer_->reader_->touch(due_ns);
  return true;
}

std::unique_ptr<LinkPort> Links::open(const std::string& self, const std::string& peer) {
  auto port = std::make_unique<LinkPort>(std::string(kLinkPrefix) + peer);
  opened_[self] = port.get();
  if (const auto other = opened_.find(peer); other != opened_.end()) port->connect(*other->second);
  return port;
}

}  // namespace tiercast::vswitch
