#include "dataplane/sender/frames/frame_template.h"

#include <algorithm>
#include <vector>

#include "protocols/wire/bytes.h"

namespace tiercast::sender {
namespace {

constexpr std::uint8_t kProtocolUdp = 17;

}  // namespace

FrameTemplate::FrameTemplate(const wire::UdpFlow& flow, const std::optional<Vlan>& vlan,
                             std::uint32_t ip_bytes, ChecksumOffload offload)
    : offload_(offload) {
  // Let the plain writer make the headers of a packet of this length, then remove the parts that
  // change.
  std::vector<std::byte> frame(wire::kEthernetBytes + ip_bytes);
  wire::write_udp_headers(flow, 0, frame);
  const std::span<std::byte> ip = std::span(frame).subspan(wire::kEthernetBytes);
  const std::span<std::byte> udp = ip.subspan(wire::kIpv4Bytes);
  wire::put16(ip, 10, 0);
  wire::put16(udp, 6, 0);
  ip_sum_ = fold(wire::sum_words(ip.data(), wire::kIpv4Bytes));
  std::array<std::byte, 12> pseudo{};  // RFC 768
  std::copy_n(ip.begin() + 12, 8, pseudo.begin());
  pseudo[9] = std::byte{kProtocolUdp};
  std::copy_n(udp.begin() + 4, 2, pseudo.begin() + 10);
  const std::uint64_t pseudo_sum = wire::sum_words(pseudo.data(), pseudo.size());
  udp_sum_ = fold(pseudo_sum + wire::sum_words(udp.data(), wire::kUdpBytes));
  if (offload.udp) {
    const std::uint16_t start = fold(pseudo_sum);  // devices continue from the pseudo header's sum
    std::memcpy(udp.data() + 6, &start, 2);
  }

  const std::size_t tag = vlan ? dpdk::kVlanBytes : 0;
  std::copy_n(frame.begin(), wire::kFrameHeaderBytes,
              header_.begin() + static_cast<std::ptrdiff_t>(tag));
  if (vlan) dpdk::insert_tag(*vlan, header_);
  header_bytes_ = static_cast<std::uint8_t>(wire::kFrameHeaderBytes + tag);
  frame_bytes_ = static_cast<std::uint16_t>(frame.size() + tag);
}

}  // namespace tiercast::sender
