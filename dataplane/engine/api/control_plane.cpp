// The control API: tables, multicast groups, clone sessions. control_externs.cpp has the rest.
#include <algorithm>

#include "dataplane/engine/api/control_names.h"
#include "dataplane/engine/api/switch_state.h"
#include "dataplane/engine/control/sorted_keys.h"

namespace tiercast::engine {

namespace {

constexpr std::uint32_t kMaxGroup = 65535;
constexpr std::uint32_t kMaxSession = 32767;

Status unknown_table(const ProgramState& program, std::string_view name) {
  return unknown("table", name, program.image.table_infos);
}

Status check_replicas(const std::string& place, std::vector<Replica> replicas) {
  std::sort(replicas.begin(), replicas.end());
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    if (replicas[i].port >= Switch::kMaxPorts) {
      return {ErrorCode::kInvalidArgument, place + ": port " + std::to_string(replicas[i].port) +
                                               ", valid: 0 to " +
                                               std::to_string(Switch::kMaxPorts - 1)};
    }
    if (i > 0 && replicas[i] == replicas[i - 1]) {
      return {ErrorCode::kInvalidArgument, place + ": port " + std::to_string(replicas[i].port) +
                                               " instance " + std::to_string(replicas[i].instance) +
                                               " twice"};
    }
  }
  return {};
}

// Objects that are created, changed, removed and read by number: multicast groups and clone
// sessions.
template <class T>
class Numbered {
 public:
  Numbered(std::unordered_map<std::uint32_t, T>& map, const char* what, std::uint32_t id,
           std::uint32_t max)
      : map_(map), place_(what + (" " + std::to_string(id))), id_(id), max_(max) {}
  Status insert(T value, const std::vector<Replica>& replicas) {
    if (id_ == 0 || id_ > max_) {
      return {ErrorCode::kInvalidArgument, place_ + ": valid: 1 to " + std::to_string(max_)};
    }
    if (map_.contains(id_)) return {ErrorCode::kAlreadyExists, place_ + " already exists"};
    return set(std::move(value), replicas);
  }
  Status modify(T value, const std::vector<Replica>& replicas) {
    if (!map_.contains(id_)) return missing();
    return set(std::move(value), replicas);
  }
  Status remove() {
    if (map_.erase(id_) == 0) return missing();
    return {};
  }
  Result<T> read() const {
    const auto found = map_.find(id_);
    if (found == map_.end()) return missing();
    return found->second;
  }

 private:
  Status missing() const { return {ErrorCode::kNotFound, place_ + " does not exist"}; }
  Status set(T value, const std::vector<Replica>& replicas) {
    if (Status s = check_replicas(place_, replicas); !s.ok()) return s;
    map_[id_] = std::move(value);
    return {};
  }
  std::unordered_map<std::uint32_t, T>& map_;
  std::string place_;
  std::uint32_t id_;
  std::uint32_t max_;
};

Numbered<std::vector<Replica>> group_of(ProgramState& program, std::uint32_t group) {
  return {program.groups, "multicast group", group, kMaxGroup};
}
Numbered<CloneSession> session_of(ProgramState& program, std::uint32_t session) {
  return {program.sessions, "clone session", session, kMaxSession};
}

}  // namespace

Status Switch::insert_entry(std::string_view table, const TableEntry& entry) {
  MatchTable* t = state_->core.program->table(table);
  return t == nullptr ? unknown_table(*state_->core.program, table)
                      : t->insert(entry, state_->core.clock_ns);
}
Status Switch::modify_entry(std::string_view table, const TableEntry& entry) {
  MatchTable* t = state_->core.program->table(table);
  return t == nullptr ? unknown_table(*state_->core.program, table)
                      : t->modify(entry, state_->core.clock_ns);
}
Status Switch::delete_entry(std::string_view table, const TableEntry& entry) {
  MatchTable* t = state_->core.program->table(table);
  return t == nullptr ? unknown_table(*state_->core.program, table) : t->remove(entry);
}
Result<std::vector<TableEntry>> Switch::read_entries(std::string_view table) const {
  MatchTable* t = state_->core.program->table(table);
  if (t == nullptr) return unknown_table(*state_->core.program, table);
  return t->read(state_->core.clock_ns);
}
Result<TableEntry> Switch::read_entry(std::string_view table, const TableEntry& entry) const {
  MatchTable* t = state_->core.program->table(table);
  if (t == nullptr) return unknown_table(*state_->core.program, table);
  return t->read(entry, state_->core.clock_ns);
}
Status Switch::set_default_action(std::string_view table, const ActionCall& action) {
  MatchTable* t = state_->core.program->table(table);
  return t == nullptr ? unknown_table(*state_->core.program, table) : t->set_default(action);
}
Status Switch::reset_default_action(std::string_view table) {
  MatchTable* t = state_->core.program->table(table);
  return t == nullptr ? unknown_table(*state_->core.program, table) : t->reset_default();
}
Result<ActionCall> Switch::default_action(std::string_view table) const {
  MatchTable* t = state_->core.program->table(table);
  if (t == nullptr) return unknown_table(*state_->core.program, table);
  return t->read_default();
}
Status Switch::write_entry_counter(std::string_view table, const TableEntry& entry,
                                   CounterValue value) {
  MatchTable* t = state_->core.program->table(table);
  return t == nullptr ? unknown_table(*state_->core.program, table)
                      : t->write_counter(entry, value);
}

Status Switch::insert_multicast_group(std::uint32_t group, const std::vector<Replica>& replicas) {
  return group_of(*state_->core.program, group).insert(replicas, replicas);
}
Status Switch::modify_multicast_group(std::uint32_t group, const std::vector<Replica>& replicas) {
  return group_of(*state_->core.program, group).modify(replicas, replicas);
}
Status Switch::delete_multicast_group(std::uint32_t group) {
  return group_of(*state_->core.program, group).remove();
}
Result<std::vector<Replica>> Switch::multicast_group(std::uint32_t group) const {
  return group_of(*state_->core.program, group).read();
}
std::vector<std::uint32_t> Switch::multicast_groups() const {
  return sorted_keys(state_->core.program->groups);
}

Status Switch::insert_clone_session(std::uint32_t session, const CloneSession& config) {
  return session_of(*state_->core.program, session).insert(config, config.replicas);
}
Status Switch::modify_clone_session(std::uint32_t session, const CloneSession& config) {
  return session_of(*state_->core.program, session).modify(config, config.replicas);
}
Status Switch::delete_clone_session(std::uint32_t session) {
  return session_of(*state_->core.program, session).remove();
}
Result<CloneSession> Switch::clone_session(std::uint32_t session) const {
  return session_of(*state_->core.program, session).read();
}
std::vector<std::uint32_t> Switch::clone_sessions() const {
  return sorted_keys(state_->core.program->sessions);
}

}  // namespace tiercast::engine
