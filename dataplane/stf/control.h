// The script commands for the switch's control plane.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dataplane/engine/api/switch.h"
#include "dataplane/stf/script.h"

namespace tiercast::stf {

class Control {
 public:
  explicit Control(engine::Switch& sw) : switch_(sw) {}
  // Throws NameError if the switch refuses the command, or a counter is not as expected.
  void run(const Command& command);

 private:
  void add(const Command& c);
  void set_default(const Command& c);
  void remove_all();
  void check_counter(const Command& c);
  void direct(const Command& c);  // Verb::kControl
  void mirroring(const Command& c);
  void multicast(const Command& c);
  void counter(const Command& c);
  void registers(const Command& c);
  void meter(const Command& c);
  void install_groups();
  engine::CounterValue counter_value(const Command& c) const;

  engine::Switch& switch_;
  struct Labelled {
    std::string table;
    engine::TableEntry entry;
  };
  std::map<std::string, Labelled> labels_;
  // bmv2's replication engine: nodes (an instance on some ports) are created and then associated
  // with groups. A mirroring session may name a group.
  struct Node {
    std::uint16_t instance;
    std::vector<std::uint32_t> ports;
  };
  std::vector<Node> nodes_;
  std::map<std::uint32_t, std::vector<std::size_t>> groups_;
  std::map<std::uint32_t, std::uint32_t> group_sessions_;
};

}  // namespace tiercast::stf
