#include "dataplane/switch/port/interfaces.h"

#include <net/if.h>  // first, because linux/*.h then leave its flags alone

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/ethtool.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <system_error>

namespace tiercast::vswitch {
namespace {

// Opened once, so that a switch sees its links when it has no descriptor left.
int control_socket(const std::string& interface) {
  static const UniqueFd socket = [&] {
    UniqueFd made(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (made.get() < 0)
      throw InterfaceError(fmt::format("interface {}: socket: {}", interface, strerror(errno)));
    return made;
  }();
  return socket.get();
}

// An ifreq of netdevice(7): what an ioctl is asked about an interface, and then its answer.
class InterfaceRequest {
 public:
  explicit InterfaceRequest(const std::string& interface) : fd_(control_socket(interface)) {
    interface.copy(request_.ifr_name, IFNAMSIZ - 1);
  }

  bool ioctl(unsigned long command) { return ::ioctl(fd_, command, &request_) == 0; }
  bool ethtool(void* command) {
    request_.ifr_data = static_cast<char*>(command);
    return ioctl(SIOCETHTOOL);
  }
  const ifreq& answer() const { return request_; }

 private:
  const int fd_;
  ifreq request_{};
};

// Offload features, by the names that the kernel gives them (see `ethtool -k`).
bool is_offload(std::string_view feature) {
  constexpr std::array<std::string_view, 9> kExact = {"tx-scatter-gather",
                                                      "tx-scatter-gather-fraglist",
                                                      "tx-generic-segmentation",
                                                      "rx-gro",
                                                      "rx-gro-list",
                                                      "rx-gro-hw",
                                                      "rx-lro",
                                                      "rx-checksum",
                                                      "rx-udp-gro-forwarding"};
  return std::find(kExact.begin(), kExact.end(), feature) != kExact.end() ||
         feature.starts_with("tx-checksum-") ||
         (feature.starts_with("tx-") && feature.ends_with("-segmentation")) ||
         feature.starts_with("rx-vlan-hw-parse") || feature.starts_with("rx-vlan-stag-hw-parse") ||
         feature.starts_with("tx-vlan-hw-insert") || feature.starts_with("tx-vlan-stag-hw-insert");
}

std::vector<std::string> feature_names(InterfaceRequest& request) {
  alignas(ethtool_sset_info) std::array<std::byte, sizeof(ethtool_sset_info) + 4> query{};
  auto* info = reinterpret_cast<ethtool_sset_info*>(query.data());
  info->cmd = ETHTOOL_GSSET_INFO;
  info->sset_mask = 1ULL << ETH_SS_FEATURES;
  if (!request.ethtool(info) || info->sset_mask == 0) return {};
  const std::uint32_t count = info->data[0];

  std::vector<std::byte> storage(sizeof(ethtool_gstrings) + count * ETH_GSTRING_LEN);
  auto* strings = reinterpret_cast<ethtool_gstrings*>(storage.data());
  strings->cmd = ETHTOOL_GSTRINGS;
  strings->string_set = ETH_SS_FEATURES;
  strings->len = count;
  if (!request.ethtool(strings)) return {};
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < strings->len; ++i) {
    const char* name = reinterpret_cast<const char*>(strings->data) + i * ETH_GSTRING_LEN;
    names.emplace_back(name, strnlen(name, ETH_GSTRING_LEN));
  }
  return names;
}

// The active features, one bit each.
std::vector<ethtool_get_features_block> feature_blocks(InterfaceRequest& request,
                                                       std::size_t count) {
  const std::size_t blocks = (count + 31) / 32;
  std::vector<std::byte> storage(sizeof(ethtool_gfeatures) +
                                 blocks * sizeof(ethtool_get_features_block));
  auto* features = reinterpret_cast<ethtool_gfeatures*>(storage.data());
  features->cmd = ETHTOOL_GFEATURES;
  features->size = static_cast<std::uint32_t>(blocks);
  if (!request.ethtool(features)) return {};
  return {features->features, features->features + blocks};
}

}  // namespace

std::vector<std::string> interface_names() {
  std::vector<std::string> names;
  if (struct if_nameindex* list = ::if_nameindex()) {
    for (const auto* entry = list; entry->if_index != 0; ++entry)
      names.emplace_back(entry->if_name);
    ::if_freenameindex(list);
  }
  return names;
}

Interface find_interface(const std::string& name) {
  Interface interface;
  interface.index = static_cast<int>(::if_nametoindex(name.c_str()));
  if (interface.index == 0)
    throw InterfaceError(fmt::format("interface {} does not exist; this network namespace has: {}",
                                     name, fmt::join(interface_names(), ", ")));
  InterfaceRequest request(name);
  if (!request.ioctl(SIOCGIFHWADDR) || request.answer().ifr_hwaddr.sa_family != ARPHRD_ETHER)
    throw InterfaceError(fmt::format("interface {} is not an Ethernet interface", name));
  if (!request.ioctl(SIOCGIFFLAGS) || (request.answer().ifr_flags & IFF_UP) == 0)
    throw InterfaceError(
        fmt::format("interface {} is down; bring it up: ip link set {} up", name, name));
  if (!request.ioctl(SIOCGIFMTU))
    throw InterfaceError(fmt::format("interface {}: no MTU: {}", name, strerror(errno)));
  interface.mtu = static_cast<unsigned>(request.answer().ifr_mtu);
  return interface;
}

bool is_running(const std::string& name) {
  constexpr int kRunning = IFF_UP | IFF_RUNNING;
  InterfaceRequest request(name);
  return request.ioctl(SIOCGIFFLAGS) && (request.answer().ifr_flags & kRunning) == kRunning;
}

unsigned receive_queues(const std::string& name) {
  InterfaceRequest request(name);
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  if (!request.ethtool(&channels)) return 1;
  return std::max(channels.rx_count + channels.combined_count, 1u);
}

std::string driver(const std::string& name) {
  InterfaceRequest request(name);
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  if (!request.ethtool(&info)) return {};
  return {info.driver, strnlen(info.driver, sizeof info.driver)};
}

InterfaceEvents::InterfaceEvents()
    : fd_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)) {
  if (fd_.get() < 0) throw std::system_error(errno, std::generic_category(), "netlink socket");
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::system_error(errno, std::generic_category(), "netlink bind");
}

void InterfaceEvents::clear() {
  std::array<char, 8192> message;
  // A lost message (ENOBUFS) means a change, too.
  while (::recv(fd_.get(), message.data(), message.size(), 0) >= 0 || errno == ENOBUFS) {
  }
}

std::vector<std::string> disable_offloads(const std::string& name) {
  InterfaceRequest request(name);
  const std::vector<std::string> names = feature_names(request);
  const auto before = feature_blocks(request, names.size());
  if (before.empty()) return {};

  std::vector<std::byte> storage(sizeof(ethtool_sfeatures) +
                                 before.size() * sizeof(ethtool_set_features_block));
  auto* change = reinterpret_cast<ethtool_sfeatures*>(storage.data());
  change->cmd = ETHTOOL_SFEATURES;
  change->size = static_cast<std::uint32_t>(before.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::uint32_t bit = 1u << (i % 32);
    if (is_offload(names[i]) && (before[i / 32].available & bit))
      change->features[i / 32].valid |= bit;
  }
  request.ethtool(change);

  std::vector<std::string> still_on;
  const auto after = feature_blocks(request, names.size());
  for (std::size_t i = 0; i < names.size() && i / 32 < after.size(); ++i) {
    const std::uint32_t bit = 1u << (i % 32);
    if (is_offload(names[i]) && (after[i / 32].active & bit) && (after[i / 32].available & bit))
      still_on.push_back(names[i]);
  }
  return still_on;
}

}  // namespace tiercast::vswitch
