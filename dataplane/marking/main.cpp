// tiercast-marking: judges what a port does about congestion, by itself and in virtual time.
//
// Standard input: a tiercast.v1.MarkingTrial as a line of JSON. Standard output: for each packet,
// in the order of arrival, 28 bytes and 8 for each register, little-endian: arrival_ns and wait_ns
// (int64), found and left_behind (uint32), traffic_class (uint16), fate (uint8), a zero byte, and
// the registers (uint64). `tiercast marking` starts it.
#include <google/protobuf/util/json_util.h>

#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>

#include "dataplane/marking/trial.h"

static_assert(std::endian::native == std::endian::little);

namespace {

using namespace tiercast;

constexpr const char* kHelp =
    "tiercast-marking: what a port does about congestion, packet by packet, in virtual time.\n"
    "Reads a trial from standard input and writes a record for each packet to standard output.\n"
    "Start it by: tiercast marking KIND\n";

void write_record(const marking::PacketRecord& record, std::span<const std::uint64_t> values) {
  std::array<char, 28> bytes{};
  std::memcpy(bytes.data(), &record.arrival_ns, 8);
  std::memcpy(bytes.data() + 8, &record.wait_ns, 8);
  std::memcpy(bytes.data() + 16, &record.found, 4);
  std::memcpy(bytes.data() + 20, &record.left_behind, 4);
  std::memcpy(bytes.data() + 24, &record.traffic_class, 2);
  std::memcpy(bytes.data() + 26, &record.fate, 1);
  std::fwrite(bytes.data(), bytes.size(), 1, stdout);
  std::fwrite(values.data(), 8, values.size(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
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
      throw std::invalid_argument("trial: " + std::string(status.message()));
    }
    marking::run(trial, write_record);
    return std::fflush(stdout) == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tiercast-marking: %s\n", error.what());
    return 2;
  }
}
