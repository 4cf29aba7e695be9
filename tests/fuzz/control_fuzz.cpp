// Any control-plane operations between packets: no entry, member, group or value may do harm.
//
// Input: program (1 byte), then operations.
#include <fuzzer/FuzzedDataProvider.h>

#include "tests/fuzz/programs.h"

namespace {

using namespace tiercast;
using engine::Bytes;

class Operator {
 public:
  Operator(FuzzedDataProvider& in, engine::Switch& sw) : in_(in), sw_(sw) {}

  void step() {
    switch (in_.ConsumeIntegral<std::uint8_t>() % 12) {
      case 0:
      case 1: return packet();
      case 2:
      case 3: return entry();
      case 4: return default_action();
      case 5: return group();
      case 6: return counter();
      case 7: return array();
      case 8: return meter();
      case 9: return digest();
      case 10: return value_set();
      case 11: return profile();
    }
  }

 private:
  Bytes bytes() { return in_.ConsumeRandomLengthString(20); }
  std::uint32_t small() { return in_.ConsumeIntegral<std::uint8_t>(); }

  template <class List>
  const typename List::value_type* any(const List& list) {
    return list.empty() ? nullptr : &list[small() % list.size()];
  }

  // Mostly valid, so that it passes the checks.
  engine::FieldMatch match(const engine::KeyField& key) {
    engine::FieldMatch m;
    m.any = in_.ConsumeProbability<float>() < 0.1;
    m.value = Bytes(1, static_cast<char>(small()));
    m.mask = Bytes(1, static_cast<char>(small()));
    m.prefix_length = small() % (key.width + 1);
    if (in_.ConsumeProbability<float>() < 0.1) m.value = bytes();
    return m;
  }

  engine::ActionCall call(const std::vector<std::string>& names) {
    engine::ActionCall c;
    if (const auto* name = any(names)) c.name = *name;
    for (const auto& info : sw_.program().actions()) {
      if (info.name != c.name) continue;
      for (std::size_t p = 0; p < info.parameters.size(); ++p) {
        c.arguments.push_back(Bytes(1, static_cast<char>(small() % 5)));
      }
      break;
    }
    if (in_.ConsumeProbability<float>() < 0.05) c.arguments.push_back(bytes());
    return c;
  }

  engine::MeterConfig rates() {
    return {static_cast<double>(small()), small(), static_cast<double>(small()) * 3, small(),
            in_.ConsumeBool()};
  }

  void packet() {
    const auto port = small() % 5;
    now_ns_ += small() * std::int64_t{1000};
    sw_.receive(port, in_.ConsumeBytes<std::byte>(small()), now_ns_);
  }

  void entry() {
    const auto* table = any(sw_.program().tables());
    if (table == nullptr) return;
    engine::TableEntry e;
    for (const auto& key : table->keys) e.match.push_back(match(key));
    if (table->needs_priority) e.priority = static_cast<std::int32_t>(small() % 4);
    if (!table->action_profile.empty()) {
      if (in_.ConsumeBool()) {
        auto& set = e.action_set.emplace(small() % 4);
        for (auto& each : set) each = {call(table->actions), small() % 4, watch_port()};
      } else {
        (in_.ConsumeBool() ? e.member : e.group) = small() % 4;
      }
    } else {
      e.action = call(table->actions);
    }
    if (table->supports_timeout) e.idle_timeout_ns = small() * 1000;
    if (!table->direct_meter.empty() && in_.ConsumeBool()) e.meter = rates();
    switch (small() % 5) {
      case 0:
      case 1: (void)sw_.insert_entry(table->name, e); break;
      case 2: (void)sw_.modify_entry(table->name, e); break;
      case 3: (void)sw_.delete_entry(table->name, e); break;
      case 4: (void)sw_.read_entries(table->name); break;
    }
  }

  void default_action() {
    const auto* table = any(sw_.program().tables());
    if (table == nullptr) return;
    (void)sw_.set_default_action(table->name, call(table->actions));
    (void)sw_.default_action(table->name);
    if (in_.ConsumeBool()) (void)sw_.reset_default_action(table->name);
  }

  void group() {
    const std::uint32_t id = small() % 10;
    std::vector<engine::Replica> replicas;
    for (std::uint32_t n = small() % 4; n > 0; --n) {
      replicas.push_back({small() * 3, static_cast<std::uint16_t>(small())});
    }
    switch (small() % 4) {
      case 0: (void)sw_.modify_multicast_group(id, replicas); break;
      case 1: (void)sw_.delete_multicast_group(id); break;
      case 2:
        (void)sw_.modify_clone_session(id, {replicas, static_cast<std::uint16_t>(small())});
        break;
      case 3: (void)sw_.insert_multicast_group(id, replicas); break;
    }
  }

  void counter() {
    const auto* info = any(sw_.program().counters());
    if (info == nullptr) return;
    (void)sw_.write_counter(info->name, small(), {small(), small()});
    (void)sw_.read_counter(info->name, small());
  }

  void array() {
    const auto* info = any(sw_.program().registers());
    if (info == nullptr) return;
    (void)sw_.write_register(info->name, small(), bytes());
    (void)sw_.read_register(info->name, small());
  }

  void meter() {
    const auto* info = any(sw_.program().meters());
    if (info == nullptr) return;
    (void)sw_.write_meter(info->name, small() % 8, rates());
    (void)sw_.read_meter(info->name, small());
  }

  void digest() {
    const auto* info = any(sw_.program().digests());
    if (info == nullptr) return;
    if (in_.ConsumeBool()) return (void)sw_.acknowledge_digest(info->name, small() % 4);
    (void)sw_.configure_digest(info->name,
                               engine::DigestConfig{small() % 4, small() * 1000, small() * 1000});
  }

  void value_set() {
    const auto* info = any(sw_.program().value_sets());
    if (info == nullptr) return;
    std::vector<engine::ValueSetMember> members(small() % 4);
    for (auto& member : members) {
      for (std::size_t part = 0; part < info->widths.size(); ++part) {
        member.push_back({in_.ConsumeBool(), bytes(), in_.ConsumeBool() ? bytes() : Bytes(), 0});
      }
    }
    (void)sw_.write_value_set(info->name, std::move(members));
  }

  std::optional<std::uint32_t> watch_port() {
    if (in_.ConsumeBool()) return std::nullopt;
    return small() * 3;
  }

  void profile() {
    const auto* info = any(sw_.program().action_profiles());
    if (info == nullptr) return;
    std::vector<std::string> names;
    for (const auto& table : sw_.program().tables()) {
      if (table.action_profile == info->name) names = table.actions;
    }
    const std::uint32_t id = small() % 4;
    engine::ActionGroup members;
    for (std::uint32_t n = small() % 4; n > 0; --n) {
      members.members.push_back({small() % 4, small() % 4, watch_port()});
    }
    switch (small() % 8) {
      case 0: (void)sw_.insert_member(info->name, id, call(names)); break;
      case 1: (void)sw_.modify_member(info->name, id, call(names)); break;
      case 2: (void)sw_.delete_member(info->name, id); break;
      case 3: (void)sw_.insert_group(info->name, id, members); break;
      case 4: (void)sw_.modify_group(info->name, id, members); break;
      case 5: (void)sw_.delete_group(info->name, id); break;
      case 6: (void)sw_.set_port_up(small() % 5, in_.ConsumeBool()); break;
      case 7: (void)sw_.profile_usage(info->name); break;
    }
  }

  FuzzedDataProvider& in_;
  engine::Switch& sw_;
  std::int64_t now_ns_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto& all = fuzz::programs();
  FuzzedDataProvider in(data, size);
  fuzz::Transcript transcript;
  engine::Switch sw(all[in.ConsumeIntegral<std::uint8_t>() % all.size()], {}, transcript);
  fuzz::add_ports(sw);
  fuzz::add_groups(sw);
  Operator op(in, sw);
  while (in.remaining_bytes() > 0) op.step();
  for (int events = 0; events < 1000 && sw.next_event() != engine::Switch::kNever; ++events) {
    sw.advance(sw.next_event());
  }
  return 0;
}
