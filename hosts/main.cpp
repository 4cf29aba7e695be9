// tiercast-host: a member of a multicast session, over the kernel's UDP sockets.
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "agent/interface.h"
#include "agent/run.h"
#include "hosts/options.h"
#include "hosts/receiver.h"
#include "hosts/schemes.h"

namespace {

using namespace tiercast;

int run(const std::vector<std::string>& arguments) {
  hosts::HostOptions options;
  if (const auto status = options.parse(arguments)) return *status;
  if (options.command == hosts::Command::kSchemes) {
    fmt::print("{}\n", hosts::schemes_as_json());
    return 0;
  }
  if (options.command == hosts::Command::kCheck) {
    options.scheme->make_sender(options.agent.session);
    options.scheme->make_receiver(options.agent.session);
    return 0;
  }

  agent::EventLoop loop;
  agent::Telemetry telemetry(options.agent.trace, !options.agent.lab.empty());
  if (const std::string problem = agent::disable_veth_offloads(options.interface);
      !problem.empty()) {
    fmt::print(stderr, "{}: {}; a sender without a kernel may refuse this host's feedback\n",
               options.agent.name, problem);
  }
  hosts::Receiver receiver(options.agent.session, *options.scheme, options.interface,
                           options.sender, options.output, loop, telemetry);
  if (options.agent.keys) receiver.seal_with(*options.agent.keys);
  if (options.agent.object) receiver.object(*options.agent.object);
  const int status = agent::run_agent(options.agent, v1::ROLE_RECEIVER, loop, telemetry, receiver);
  const std::string fault = receiver.fault_of_object();
  if (fault.empty()) return status;
  fmt::print(stderr, "{}: {}: {}\n", options.agent.name, options.output, fault);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  return tiercast::agent::run_main("tiercast-host", argc, argv, run);
}
