#include "dataplane/streams/test_frame.h"

#include <array>

#include "protocols/wire/bytes.h"

namespace tiercast::streams {

TestFrame::TestFrame(std::uint32_t source, const wire::MacAddress& mac, std::size_t bytes,
                     std::uint16_t trial)
    : frame_(bytes) {
  write_test_message({.trial = trial}, std::span(frame_).subspan(wire::kFrameHeaderBytes));
  wire::UdpFlow flow;
  flow.source_mac = mac;
  flow.source = source;
  flow.source_port = flow.destination_port = TestMessage::kPort;
  wire::write_udp_headers(flow, 0, frame_);
  wire::put16(frame_, kIpChecksumAt, 0);
  wire::put16(frame_, kUdpChecksumAt, 0);
  ip_sum_ = wire::sum_words(frame_.data() + wire::kEthernetBytes, wire::kIpv4Bytes);
  // The pseudo header (RFC 768): the source, the protocol and the length.
  const std::array<std::byte, 4> rest{std::byte{0}, std::byte{17}, frame_[38], frame_[39]};
  udp_sum_ = wire::sum_words(frame_.data() + 26, 4) + wire::sum_words(rest.data(), rest.size()) +
             wire::sum_words(frame_.data() + 34, wire::kUdpBytes);
}

}  // namespace tiercast::streams
