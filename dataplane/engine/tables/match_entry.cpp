// Converts the control plane's entries to a table's keys and arguments, and back.
#include <cmath>

#include "dataplane/engine/control/byte_values.h"
#include "dataplane/engine/tables/action_call.h"
#include "dataplane/engine/tables/match_table.h"

namespace tiercast::engine {

namespace {

std::string value_text(const Bytes& bytes) { return bytes.empty() ? "(empty)" : to_hex(bytes); }

Status wrong(const std::string& what) { return {ErrorCode::kInvalidArgument, what}; }

}  // namespace

Status check_meter(const std::string& place, const MeterConfig& config) {
  for (const double rate : {config.committed_rate, config.peak_rate}) {
    if (!(rate >= 0) || !std::isfinite(rate)) {
      return wrong(place + ": meter rate " + std::to_string(rate) + ", valid: 0 or more");
    }
  }
  if (!config.single_rate && config.peak_rate < config.committed_rate) {
    return wrong(place + ": peak rate " + std::to_string(config.peak_rate) +
                 " is below the committed rate " + std::to_string(config.committed_rate));
  }
  return {};
}

std::string MatchTable::entry_text(const TableEntry& entry) const {
  std::string text = "entry";
  for (std::size_t i = 0; i < info_.keys.size() && i < entry.match.size(); ++i) {
    const FieldMatch& m = entry.match[i];
    text += " " + info_.keys[i].name + "=";
    if (m.any) {
      text += "*";
      continue;
    }
    text += value_text(m.value);
    if (info_.keys[i].kind == MatchKind::kLpm)
      text.append("/").append(std::to_string(m.prefix_length));
    if (!m.mask.empty()) text += "&&&" + value_text(m.mask);
  }
  if (has_priority_) text += " priority " + std::to_string(entry.priority);
  return text;
}

Status MatchTable::key_field(const Key& key, const KeyField& info, const FieldMatch& match,
                             Cell* value, Cell* mask) const {
  const std::string place = "table " + layout_.name + ", key " + info.name + ": ";
  const auto all_ones = [&](Cell* out) {
    for (std::uint32_t w = 0; w < key.words(); ++w) out[w] = low_mask(key.width - w * kCellBits);
  };
  if (match.any) {
    if (key.kind == MatchKind::kExact) return wrong(place + "an exact field needs a value");
    if (key.kind == MatchKind::kRange) all_ones(mask);
    return {};
  }
  const auto parse = [&](const Bytes& bytes, const char* what, Cell* out) -> Status {
    if (bytes.empty()) return wrong(place + "an empty " + what);
    const auto cells = to_cells(bytes, key.width);
    if (!cells) {
      return wrong(place + what + " " + to_hex(bytes) + " does not fit in " +
                   std::to_string(key.width) + " bits");
    }
    std::copy(cells->begin(), cells->end(), out);
    return {};
  };
  if (Status s = parse(match.value, "value", value); !s.ok()) return s;
  switch (key.kind) {
    case MatchKind::kExact:
    case MatchKind::kOptional: all_ones(mask); break;
    case MatchKind::kLpm:
      if (match.prefix_length > key.width) {
        return wrong(place + "prefix length " + std::to_string(match.prefix_length) +
                     ", valid: 0 to " + std::to_string(key.width));
      }
      for (unsigned bit = key.width - match.prefix_length; bit < key.width; ++bit) {
        mask[bit / 64] |= Cell{1} << (bit % 64);
      }
      break;
    case MatchKind::kTernary:
      if (Status s = parse(match.mask, "mask", mask); !s.ok()) return s;
      break;
    case MatchKind::kRange: {
      if (Status s = parse(match.mask, "high bound", mask); !s.ok()) return s;
      for (std::uint32_t w = key.words(); w-- > 0;) {
        if (value[w] == mask[w]) continue;
        if (value[w] > mask[w]) {
          return wrong(place + "the low bound " + to_hex(match.value) +
                       " is above the high bound " + to_hex(match.mask));
        }
        break;
      }
      return {};
    }
  }
  for (std::uint32_t w = 0; w < key.words(); ++w) value[w] &= mask[w];
  return {};
}

Status MatchTable::to_key(const TableEntry& entry, Entry& out) const {
  if (entry.match.size() != layout_.keys.size()) {
    return wrong("table " + layout_.name + " has " + std::to_string(layout_.keys.size()) +
                 " key fields, the entry has " + std::to_string(entry.match.size()));
  }
  if (has_priority_ && entry.priority <= 0) {
    return wrong("table " + layout_.name + ": priority " + std::to_string(entry.priority) +
                 ", valid: 1 to 2147483647");
  }
  if (!has_priority_ && entry.priority != 0) {
    return wrong("table " + layout_.name + ": priority " + std::to_string(entry.priority) +
                 ", valid: 0 (the table has only exact and lpm fields)");
  }
  out.key.assign(layout_.key_words, 0);
  out.mask.assign(layout_.key_words, 0);
  out.priority = entry.priority;
  for (std::size_t i = 0; i < layout_.keys.size(); ++i) {
    const Key& key = layout_.keys[i];
    Status s = key_field(key, info_.keys[i], entry.match[i], out.key.data() + key.word,
                         out.mask.data() + key.word);
    if (!s.ok()) return s;
  }
  return {};
}

Status MatchTable::set_action(Entry& out, const TableEntry& entry) const {
  if (layout_.profile != kNone) {
    if (!entry.action.name.empty()) {
      return wrong("table " + layout_.name +
                   " has an action profile: its entries refer to the profile instead of an action");
    }
    out.member = entry.member;
    out.group = entry.group;
    return {};
  }
  if (entry.member || entry.group || entry.action_set) {
    return wrong("table " + layout_.name + " has no action profile: its entries need an action");
  }
  ResolvedCall call;
  Status s = resolve_call(image_, "table " + layout_.name, layout_.actions, entry.action, call);
  if (!s.ok()) return s;
  out.action = call.index;
  out.arguments = std::move(call.arguments);
  out.call = std::move(call.canonical);
  return {};
}

Status MatchTable::check_options(const TableEntry& entry) const {
  if (entry.counter && !layout_.direct_counter) {
    return wrong("table " + layout_.name + " has no direct counter");
  }
  if (entry.meter && layout_.direct_meter == kNone) {
    return wrong("table " + layout_.name + " has no direct meter");
  }
  if (entry.meter) {
    if (Status s = check_meter("table " + layout_.name, *entry.meter); !s.ok()) return s;
  }
  if (entry.idle_timeout_ns != 0 && !layout_.supports_timeout) {
    return wrong("table " + layout_.name + " does not support idle time-outs");
  }
  if (entry.idle_timeout_ns < 0) {
    return wrong("table " + layout_.name + ": idle time-out " +
                 std::to_string(entry.idle_timeout_ns) + " ns, valid: 0 or more");
  }
  return {};
}

TableEntry MatchTable::describe(const Entry& entry, std::int64_t now_ns) const {
  TableEntry out;
  for (const Key& key : layout_.keys) {
    const Cell* value = entry.key.data() + key.word;
    const Cell* mask = entry.mask.data() + key.word;
    unsigned bits = 0;
    for (std::uint32_t w = 0; w < key.words(); ++w) {
      bits += static_cast<unsigned>(__builtin_popcountll(mask[w]));
    }
    FieldMatch match;
    match.any = key.kind == MatchKind::kRange
                    ? bits == key.width && to_bytes(value, key.width) == Bytes(1, '\0')
                    : bits == 0 && key.kind != MatchKind::kExact;
    if (!match.any) {
      match.value = to_bytes(value, key.width);
      if (key.kind == MatchKind::kTernary || key.kind == MatchKind::kRange) {
        match.mask = to_bytes(mask, key.width);
      }
      if (key.kind == MatchKind::kLpm) match.prefix_length = bits;
    }
    out.match.push_back(std::move(match));
  }
  out.priority = entry.priority;
  out.action = entry.call;
  out.member = entry.member;
  out.group = entry.group;
  if (entry.binding.set != nullptr) out.action_set = entry.binding.set->config;
  if (layout_.direct_counter) out.counter = entry.counter;
  if (layout_.direct_meter != kNone) out.meter = entry.meter.config();
  if (layout_.supports_timeout) {
    out.idle_timeout_ns = entry.idle_timeout_ns;
    out.idle_ns = now_ns - entry.last_hit_ns;
  }
  return out;
}

}  // namespace tiercast::engine
