#include "dataplane/switch/port/frame_port.h"

#include "dataplane/switch/port/interfaces.h"
#include "dataplane/switch/port/packet_socket.h"
#ifdef TIERCAST_XDP
#include "dataplane/switch/port/xdp_socket.h"
#endif

namespace tiercast::vswitch {
namespace {
DeviceOpener device_opener = nullptr;

std::unique_ptr<FramePort> open_xdp(const std::string& interface) {
#ifdef TIERCAST_XDP
  return std::make_unique<XdpSocket>(interface);
#else
  throw InterfaceError("interface " + interface +
                       ": this program was built without XDP ports (libxdp-dev, libbpf-dev)");
#endif
}

}  // namespace

void set_device_opener(DeviceOpener opener) { device_opener = opener; }

std::unique_ptr<FramePort> open_port(const std::string& name) {
  if (name.starts_with(kXdpPrefix)) return open_xdp(name.substr(kXdpPrefix.size()));
  if (!name.starts_with(kDevicePrefix)) return std::make_unique<PacketSocket>(name);
  if (device_opener == nullptr)
    throw InterfaceError(name + ": this program has no DPDK ports; use tiercast-switch-dpdk");
  return device_opener(name.substr(kDevicePrefix.size()));
}

}  // namespace tiercast::vswitch
