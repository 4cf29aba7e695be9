// tiercast-recv: a DPDK application that accounts for the multicast streams that it receives.
#include <string>
#include <vector>

#include "agent/run.h"
#include "dataplane/receiver/options.h"
#include "dataplane/receiver/run.h"

namespace {

using namespace tiercast;

int run(const std::vector<std::string>& arguments) {
  receiver::ReceiverOptions options;
  if (const auto status = options.parse(arguments)) return *status;
  return run_receiver(options);
}

}  // namespace

int main(int argc, char** argv) {
  return tiercast::agent::run_main("tiercast-recv", argc, argv, run);
}
