// tiercast-send: a DPDK application that paces the layers of sessions.
#include <string>
#include <vector>

#include "agent/run.h"
#include "dataplane/sender/options.h"
#include "dataplane/sender/run.h"

namespace {

using namespace tiercast;

int run(const std::vector<std::string>& arguments) {
  sender::SenderOptions options;
  if (const auto status = options.parse(arguments)) return *status;
  return options.dry_run.empty() ? run_sender(options) : run_dry(options);
}

}  // namespace

int main(int argc, char** argv) {
  return tiercast::agent::run_main("tiercast-send", argc, argv, run);
}
