#include "dataplane/switch/port/frame_port.h"

#include "dataplane/switch/port/interfaces.h"
#include "dataplane/switch/port/packet_socket.h"

namespace tiercast::vswitch {
namespace {
DeviceOpener device_opener = nullptr;
}

void set_device_opener(DeviceOpener opener) { device_opener = opener; }

std::unique_ptr<FramePort> open_port(const std::string& name) {
  if (!name.starts_with(kDevicePrefix)) return std::make_unique<PacketSocket>(name);
  if (device_opener == nullptr)
    throw InterfaceError(name + ": this program has no DPDK ports; use tiercast-switch-dpdk");
  return device_opener(name.substr(kDevicePrefix.size()));
}

}  // namespace tiercast::vswitch
