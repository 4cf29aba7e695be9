// tiercast-marking: judges what a port does about congestion, by itself and in virtual time.
//
// Standard input: a tiercast.v1.MarkingTrial as a line of JSON. Standard output: a record for each
// packet, in the order of arrival, with the registers as values (record.h). `tiercast marking`
// starts it.
#include <google/protobuf/util/json_util.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "base/config_error.h"
#include "base/standard_output.h"
#include "dataplane/marking/trial.h"

namespace {

using namespace tiercast;

constexpr const char* kHelp =
    "tiercast-marking: what a port does about congestion, packet by packet, in virtual time.\n"
    "Reads a trial from standard input and writes a record for each packet to standard output.\n"
    "Start it by: tiercast marking KIND\n";

int run(int argc, char** argv) {
  if (argc > 1) {
    const std::string argument = argv[1];
    if (argument == "--version") {
      std::puts("tiercast-marking " TIERCAST_VERSION);
      return 0;
    }
    const bool wanted = argument == "--help";
    std::fputs(kHelp, wanted ? stdout : stderr);
    return wanted ? 0 : 2;
  }
  try {
    std::string line;
    std::getline(std::cin, line);
    v1::MarkingTrial trial;
    const auto status = google::protobuf::util::JsonStringToMessage(line, &trial);
    if (!status.ok()) {
      throw ConfigError("trial: " + std::string(status.message()));
    }
    marking::run(trial,
                 [](const marking::PacketRecord& record, std::span<const std::uint64_t> values) {
                   marking::write_record(stdout, record, values);
                 });
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tiercast-marking: %s\n", error.what());
    return 2;
  }
}

}  // namespace

int main(int argc, char** argv) { return end_output("tiercast-marking", run(argc, argv)); }
