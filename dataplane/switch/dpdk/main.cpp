// tiercast-switch-dpdk: tiercast-switch with ports on DPDK devices, which it polls.
//
//   tiercast-switch-dpdk --no-huge -m 256 --vdev=net_ring0 --vdev=net_ring1 --
//       --device-id 1 --json tiercast.json --port 1=dpdk:net_ring0 --port 2=dpdk:net_ring1
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "dataplane/switch/dpdk/dpdk_port.h"
#include "dataplane/switch/program.h"

namespace {

std::unique_ptr<tiercast::vswitch::FramePort> open_device(const std::string& device) {
  return std::make_unique<tiercast::vswitch::DpdkPort>(device);
}

}  // namespace

int main(int argc, char** argv) {
  char** const end = argv + argc;
  char** const separator = std::find(argv, end, std::string("--"));
  // Without "--", all arguments are the switch's, because --help and --version need no EAL.
  if (separator == end) return tiercast::vswitch::switch_main(argc, argv);
  try {
    tiercast::vswitch::init_eal({argv, separator});
  } catch (const std::exception& error) {
    fmt::print(stderr, "tiercast-switch-dpdk: {}\n", error.what());
    return 2;
  }
  tiercast::vswitch::set_device_opener(open_device);
  std::vector<const char*> rest{argv[0]};
  rest.insert(rest.end(), separator + 1, end);
  return tiercast::vswitch::switch_main(static_cast<int>(rest.size()), rest.data());
}
