#include "tests/fuzz/programs.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

namespace tiercast::fuzz {

namespace {

std::string hex(std::span<const std::byte> frame) {
  return {reinterpret_cast<const char*>(frame.data()), frame.size()};
}

void require(const engine::Status& status) {
  if (status.ok()) return;
  std::cerr << status.message() << std::endl;
  std::abort();
}

}  // namespace

const std::vector<std::shared_ptr<const engine::Program>>& programs() {
  static const auto all = [] {
    std::vector<std::filesystem::path> paths = {TIERCAST_P4};
    for (const auto& entry : std::filesystem::directory_iterator(TIERCAST_TEST_P4)) {
      if (entry.path().extension() == ".json") paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    std::vector<std::shared_ptr<const engine::Program>> loaded;
    for (const auto& path : paths) {
      std::ostringstream text;
      text << std::ifstream(path).rdbuf();
      loaded.push_back(engine::Program::load(text.str(), path.filename().string()));
    }
    return loaded;
  }();
  return all;
}

void Transcript::transmit(std::uint32_t port, std::span<const std::byte> frame,
                          std::int64_t due_ns) {
  lines_.push_back(std::to_string(port) + " " + std::to_string(due_ns) + " " + hex(frame));
}
void Transcript::packet_in(std::span<const std::byte> frame) {
  lines_.push_back("packet_in " + hex(frame));
}
bool Transcript::digest(const engine::DigestList& list) {
  std::string line = "digest " + std::string(list.name) + " " + std::to_string(list.list_id);
  for (std::size_t i = 0; i < list.size; ++i) {
    for (const auto& field : list.at(i)) line += " " + field;
  }
  lines_.push_back(line);
  return list.list_id % 3 != 0;
}
void Transcript::entries_expired(std::string_view table,
                                 std::span<const engine::TableEntry> entries) {
  for (const auto& entry : entries) {
    lines_.push_back("expired " + std::string(table) + " " + entry.action.name);
  }
}
void Transcript::log_message(std::string_view text) {
  lines_.push_back("log " + std::string(text));
}
void Transcript::assertion_failed(std::string_view what) {
  lines_.push_back("failed " + std::string(what));
}

void add_ports(engine::Switch& sw) {
  require(sw.set_port(1, {}));
  require(sw.set_port(2, {.rate_bps = 1e6, .queue_packets = 3, .overhead_bytes = -14}));
  require(sw.set_port(3, {.delay_ns = 5000, .rx_delay_ns = 700}));
  require(sw.set_port(4, {.rate_bps = 1e9, .queue_bytes = 9000, .overhead_bytes = 20}));
}

void add_groups(engine::Switch& sw) {
  for (std::uint32_t id = 1; id <= 8; ++id) {
    std::vector<engine::Replica> replicas;
    for (std::uint32_t port = 1; port <= 1 + id % 4; ++port) {
      replicas.push_back({port, static_cast<std::uint16_t>(id)});
    }
    if (id <= 4) require(sw.insert_multicast_group(id, replicas));
    require(sw.insert_clone_session(id, {replicas, static_cast<std::uint16_t>(id * 9)}));
  }
}

}  // namespace tiercast::fuzz
