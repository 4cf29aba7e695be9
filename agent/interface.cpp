#include "agent/interface.h"

#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>

#include "base/unique_fd.h"

namespace tiercast::agent {
namespace {

ifreq request_for(const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  return request;
}

bool ethtool(int socket, const std::string& name, void* command) {
  ifreq request = request_for(name);
  request.ifr_data = static_cast<char*>(command);
  return ioctl(socket, SIOCETHTOOL, &request) == 0;
}

struct Offload {
  const char* name;
  std::uint32_t get;
  std::uint32_t set;
};
constexpr std::array<Offload, 5> kOffloads{{
    {"tx-checksum", ETHTOOL_GTXCSUM, ETHTOOL_STXCSUM},
    {"scatter-gather", ETHTOOL_GSG, ETHTOOL_SSG},
    {"tso", ETHTOOL_GTSO, ETHTOOL_STSO},
    {"gso", ETHTOOL_GGSO, ETHTOOL_SGSO},
    {"gro", ETHTOOL_GGRO, ETHTOOL_SGRO},
}};

}  // namespace

std::string interface_name(unsigned index) {
  std::array<char, IF_NAMESIZE> name{};
  return if_indextoname(index, name.data()) != nullptr ? name.data() : "";
}

unsigned interface_index(const std::string& name) { return if_nametoindex(name.c_str()); }

std::string interface_names() {
  std::string names;
  struct if_nameindex* const all = if_nameindex();
  if (all == nullptr) return names;
  for (const struct if_nameindex* i = all; i->if_index != 0; ++i) {
    if (!names.empty()) names += ", ";
    names += i->if_name;
  }
  if_freenameindex(all);
  return names;
}

std::uint32_t interface_mtu(const std::string& name) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = request_for(name);
  if (ioctl(socket.get(), SIOCGIFMTU, &request) != 0) {
    throw std::system_error(errno, std::generic_category(), "the MTU of " + name);
  }
  return static_cast<std::uint32_t>(request.ifr_mtu);
}

std::string disable_veth_offloads(const std::string& name) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ethtool_drvinfo driver{};
  driver.cmd = ETHTOOL_GDRVINFO;
  if (!ethtool(socket.get(), name, &driver) || std::string_view(driver.driver) != "veth") return "";
  for (const Offload& offload : kOffloads) {
    ethtool_value value{};
    value.cmd = offload.get;
    if (!ethtool(socket.get(), name, &value) || value.data == 0) continue;
    value.cmd = offload.set;
    value.data = 0;
    if (!ethtool(socket.get(), name, &value)) {
      return fmt::format("cannot turn off {} on {}: {}", offload.name, name, std::strerror(errno));
    }
  }
  return "";
}

InterfaceState::InterfaceState(const std::string& name)
    : name_(name), socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}

bool InterfaceState::running() const {
  ifreq request = request_for(name_);
  return ioctl(socket_.get(), SIOCGIFFLAGS, &request) == 0 &&
         (request.ifr_flags & IFF_RUNNING) != 0;
}

}  // namespace tiercast::agent
