// The control API: counters, registers, meters, digests, value sets, CRCs, action profiles.
#include <algorithm>

#include "dataplane/engine/api/control_names.h"
#include "dataplane/engine/api/switch_state.h"
#include "dataplane/engine/control/byte_values.h"

namespace tiercast::engine {

namespace {

Status out_of_range(std::string_view what, CellRange cells, std::uint64_t size) {
  const std::uint64_t index = cells.first < size ? cells.last - 1 : cells.first;
  return {ErrorCode::kInvalidArgument, std::string(what) + "[" + std::to_string(index) +
                                           "]: it has " + std::to_string(size) + " cells"};
}

// The index of the indirect counter with this name.
Result<std::size_t> counter_index(const Image& image, std::string_view name) {
  for (std::size_t i = 0; i < image.counter_infos.size(); ++i) {
    if (image.counter_infos[i].name != name) continue;
    if (i < image.counter_sizes.size()) return i;
    return Status{ErrorCode::kInvalidArgument, "counter `" + std::string(name) +
                                                   "` is direct: read it with the entries of `" +
                                                   image.counter_infos[i].table + "`"};
  }
  return unknown("counter", name, image.counter_infos);
}

Result<std::size_t> register_index(const Image& image, std::string_view name) {
  return index_of("register", name, image.register_infos);
}

Result<std::size_t> meter_index(const Image& image, std::string_view name) {
  auto index = index_of("meter", name, image.meter_infos);
  if (!index.ok() || image.meter_infos[*index].table.empty()) return index;
  return Status{ErrorCode::kInvalidArgument, "meter `" + std::string(name) +
                                                 "` is direct: it belongs to the entries of `" +
                                                 image.meter_infos[*index].table + "`"};
}

}  // namespace

Result<CounterValue> Switch::read_counter(std::string_view counter, std::uint64_t index) const {
  const auto found = counter_index(state_->core.program->image, counter);
  if (!found.ok()) return found.status();
  const auto& cells = state_->core.program->externs.counters[*found];
  if (index >= cells.size()) return out_of_range(counter, index, cells.size());
  return cells[index];
}

Result<std::span<const CounterValue>> Switch::counter_cells(std::string_view counter) const {
  const auto found = counter_index(state_->core.program->image, counter);
  if (!found.ok()) return found.status();
  return std::span<const CounterValue>(state_->core.program->externs.counters[*found]);
}

Status Switch::write_counter(std::string_view counter, CellRange cells, CounterValue value) {
  const auto found = counter_index(state_->core.program->image, counter);
  if (!found.ok()) return found.status();
  auto& array = state_->core.program->externs.counters[*found];
  if (!cells.within(array.size())) return out_of_range(counter, cells, array.size());
  std::ranges::fill(array.subspan(cells.first, cells.last - cells.first), value);
  return {};
}

Result<Bytes> Switch::read_register(std::string_view name, std::uint64_t index) const {
  const auto found = register_index(state_->core.program->image, name);
  if (!found.ok()) return found.status();
  const RegisterArray& array = state_->core.program->image.registers[*found];
  if (index >= array.size) return out_of_range(name, index, array.size);
  return to_bytes(&state_->core.program->externs.registers[*found][index], array.width);
}

Status Switch::write_register(std::string_view name, CellRange cells, const Bytes& value) {
  const auto found = register_index(state_->core.program->image, name);
  if (!found.ok()) return found.status();
  const RegisterArray& array = state_->core.program->image.registers[*found];
  if (!cells.within(array.size)) return out_of_range(name, cells, array.size);
  const auto number = value.empty() ? std::nullopt : to_cells(value, array.width);
  if (!number) {
    return {ErrorCode::kInvalidArgument, std::string(name) + ": " + to_hex(value) +
                                             " does not fit in " + std::to_string(array.width) +
                                             " bits"};
  }
  const auto& values = state_->core.program->externs.registers[*found];
  for (std::uint64_t i = cells.first; i < cells.last; ++i) {
    std::copy(number->begin(), number->end(), &values[i]);
  }
  return {};
}

Result<std::optional<MeterConfig>> Switch::read_meter(std::string_view name,
                                                      std::uint64_t index) const {
  const auto found = meter_index(state_->core.program->image, name);
  if (!found.ok()) return found.status();
  const auto& cells = state_->core.program->externs.meters[*found];
  if (index >= cells.size()) return out_of_range(name, index, cells.size());
  return cells[index].config();
}

Status Switch::write_meter(std::string_view name, CellRange cells,
                           std::optional<MeterConfig> config) {
  const auto found = meter_index(state_->core.program->image, name);
  if (!found.ok()) return found.status();
  auto& array = state_->core.program->externs.meters[*found];
  if (!cells.within(array.size())) return out_of_range(name, cells, array.size());
  if (config) {
    if (Status s = check_meter(std::string(name), *config); !s.ok()) return s;
  }
  for (std::uint64_t i = cells.first; i < cells.last; ++i) {
    array[i].configure(config, state_->core.clock_ns);
  }
  return {};
}

Status Switch::write_entry_meter(std::string_view table, const TableEntry& entry,
                                 std::optional<MeterConfig> config) {
  MatchTable* t = state_->core.program->table(table);
  if (t == nullptr) return unknown("table", table, state_->core.program->image.table_infos);
  return t->write_meter(entry, config, state_->core.clock_ns);
}

Status Switch::configure_digest(std::string_view name, std::optional<DigestConfig> config) {
  const auto found = index_of("digest", name, state_->core.program->image.digest_infos);
  if (!found.ok()) return found.status();
  if (config && (config->max_timeout_ns < 0 || config->ack_timeout_ns < 0)) {
    return {ErrorCode::kInvalidArgument, "digest " + std::string(name) + ": a time-out below 0 ns"};
  }
  state_->core.program->digests[*found].configure(config);
  return {};
}

Result<std::optional<DigestConfig>> Switch::digest_config(std::string_view name) const {
  const auto found = index_of("digest", name, state_->core.program->image.digest_infos);
  if (!found.ok()) return found.status();
  return state_->core.program->digests[*found].config();
}

Status Switch::acknowledge_digest(std::string_view name, std::uint64_t list_id) {
  const auto found = index_of("digest", name, state_->core.program->image.digest_infos);
  if (!found.ok()) return found.status();
  state_->core.program->digests[*found].acknowledge(list_id);
  return {};
}

namespace {

// Checks `match` and writes it as one part of a select's key.
Status key_part(const std::string& place, const FieldMatch& match, unsigned width,
                std::vector<Cell>& value, std::vector<Cell>& mask) {
  const auto append = [&](const Bytes& bytes, std::vector<Cell>& out) -> Status {
    const auto cells = to_cells(bytes, width);
    if (!cells) {
      return {ErrorCode::kInvalidArgument,
              place + ": " + to_hex(bytes) + " does not fit in " + std::to_string(width) + " bits"};
    }
    out.insert(out.end(), cells->begin(), cells->end());
    return {};
  };
  if (Status s = append(match.any ? Bytes() : match.value, value); !s.ok()) return s;
  const std::size_t first = mask.size();
  if (!match.any && match.mask.empty()) {
    for (std::uint32_t c = 0; c < cells_for(width); ++c) {
      mask.push_back(low_mask(width - c * kCellBits));
    }
  } else if (Status s = append(match.any ? Bytes() : match.mask, mask); !s.ok()) {
    return s;
  }
  for (std::size_t i = first; i < mask.size(); ++i) value[i] &= mask[i];
  return {};
}

}  // namespace

Status Switch::write_value_set(std::string_view name, std::vector<ValueSetMember> members) {
  const auto found = index_of("value set", name, state_->core.program->image.value_set_infos);
  if (!found.ok()) return found.status();
  const ValueSet& set = state_->core.program->image.value_sets[*found];
  const std::string place = "value set " + set.name;
  if (members.size() > set.max_size) {
    return {ErrorCode::kResourceExhausted, place + ": " + std::to_string(members.size()) +
                                               " members, its size is " +
                                               std::to_string(set.max_size)};
  }
  std::vector<Externs::KeyMatch> all;
  for (ValueSetMember& member : members) {
    if (member.size() != set.widths.size()) {
      return {ErrorCode::kInvalidArgument, place + ": a member has " +
                                               std::to_string(set.widths.size()) +
                                               " parts, found " + std::to_string(member.size())};
    }
    Externs::KeyMatch match;
    for (std::size_t i = 0; i < member.size(); ++i) {
      Status s = key_part(place, member[i], set.widths[i], match.value, match.mask);
      if (!s.ok()) return s;
    }
    match.given = std::move(member);
    all.push_back(std::move(match));
  }
  state_->core.program->externs.value_sets[*found] = std::move(all);
  return {};
}

Result<std::vector<ValueSetMember>> Switch::read_value_set(std::string_view name) const {
  const auto found = index_of("value set", name, state_->core.program->image.value_set_infos);
  if (!found.ok()) return found.status();
  std::vector<ValueSetMember> members;
  for (const auto& m : state_->core.program->externs.value_sets[*found]) members.push_back(m.given);
  return members;
}

std::vector<std::string> Switch::calculations() const {
  std::vector<std::string> names;
  for (const Calculation& c : state_->core.program->image.calculations) names.push_back(c.name);
  return names;
}

Status Switch::write_crc(std::string_view calculation, const CrcParameters& parameters) {
  const auto found = index_of("calculation", calculation, state_->core.program->image.calculations);
  if (!found.ok()) return found.status();
  const Algorithm algorithm = state_->core.program->image.calculations[*found].algorithm;
  if (algorithm != Algorithm::kCrc16Custom && algorithm != Algorithm::kCrc32Custom) {
    return {ErrorCode::kInvalidArgument,
            "calculation " + std::string(calculation) + " is not a custom CRC"};
  }
  state_->core.program->externs.crc[*found] = parameters;
  return {};
}

// --- Action profiles ---

Result<ProfileMembers*> Switch::profile(std::string_view name) const {
  const auto found = index_of("action profile", name, state_->core.program->image.profile_infos);
  if (!found.ok()) return found.status();
  return state_->core.program->profiles[*found].get();
}

Status Switch::insert_member(std::string_view name, std::uint32_t id, const ActionCall& action) {
  const auto p = profile(name);
  return p.ok() ? (*p)->insert_member(id, action) : p.status();
}
Status Switch::modify_member(std::string_view name, std::uint32_t id, const ActionCall& action) {
  const auto p = profile(name);
  return p.ok() ? (*p)->modify_member(id, action) : p.status();
}
Status Switch::delete_member(std::string_view name, std::uint32_t id) {
  const auto p = profile(name);
  return p.ok() ? (*p)->delete_member(id) : p.status();
}
Result<ActionCall> Switch::member(std::string_view name, std::uint32_t id) const {
  const auto p = profile(name);
  if (!p.ok()) return p.status();
  return (*p)->member(id);
}
Result<std::vector<std::uint32_t>> Switch::members(std::string_view name) const {
  const auto p = profile(name);
  if (!p.ok()) return p.status();
  return (*p)->members();
}
Status Switch::insert_group(std::string_view name, std::uint32_t id, ActionGroup group) {
  const auto p = profile(name);
  return p.ok() ? (*p)->insert_group(id, std::move(group)) : p.status();
}
Status Switch::modify_group(std::string_view name, std::uint32_t id, ActionGroup group) {
  const auto p = profile(name);
  return p.ok() ? (*p)->modify_group(id, std::move(group)) : p.status();
}
Status Switch::delete_group(std::string_view name, std::uint32_t id) {
  const auto p = profile(name);
  return p.ok() ? (*p)->delete_group(id) : p.status();
}
Result<ActionGroup> Switch::group(std::string_view name, std::uint32_t id) const {
  const auto p = profile(name);
  if (!p.ok()) return p.status();
  return (*p)->group(id);
}
Result<std::vector<std::uint32_t>> Switch::groups(std::string_view name) const {
  const auto p = profile(name);
  if (!p.ok()) return p.status();
  return (*p)->groups();
}
Result<ProfileUsage> Switch::profile_usage(std::string_view name) const {
  const auto p = profile(name);
  if (!p.ok()) return p.status();
  return (*p)->usage();
}

}  // namespace tiercast::engine
