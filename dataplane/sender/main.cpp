// tiercast-send: a DPDK application that paces the layers of sessions.
#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "agent/file.h"
#include "agent/interface.h"
#include "agent/run.h"
#include "dataplane/sender/line_run.h"
#include "dataplane/sender/options.h"
#include "dataplane/sender/port.h"
#include "dataplane/sender/sender.h"

namespace {

using namespace tiercast;

int run(const std::vector<std::string>& arguments) {
  sender::SenderOptions options;
  if (const auto status = options.parse(arguments)) return *status;

  if (!options.dry_run.empty()) return run_dry(options);
  if (options.line()) return run_line(options);

  std::optional<agent::FileView> object;
  if (!options.input.empty()) {
    object.emplace(options.input);
    options.agent.session.object = object->bytes();
  }

  agent::EventLoop loop;  // first: it blocks the signals before the EAL starts threads
  agent::Telemetry telemetry(options.agent.trace, !options.agent.lab.empty());
  sender::Port port("tiercast-send", options.eal_arguments,
                    {.ip_bytes = options.agent.session.packet_size});
  if (!port.interface().empty()) {
    if (const std::string problem = agent::disable_veth_offloads(port.interface());
        !problem.empty()) {
      fmt::print(stderr, "{}: {}; checksums of what it receives may look wrong\n",
                 options.agent.name, problem);
    }
  }
  sender::SenderAddresses addresses;
  addresses.own = {options.mac.value_or(port.mac()), options.address};
  addresses.gateway = options.gateway_mac;
  sender::Sender sender(options.agent.session, *options.scheme, addresses, port, loop, telemetry);
  return agent::run_agent(options.agent, v1::ROLE_SENDER, loop, telemetry, sender);
}

}  // namespace

int main(int argc, char** argv) {
  return tiercast::agent::run_main("tiercast-send", argc, argv, run);
}
