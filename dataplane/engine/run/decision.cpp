#include "dataplane/engine/run/decision.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

namespace tiercast::engine {
namespace {

constexpr std::uint32_t kEcnBegins = 14, kEcnEnds = 16;  // bits of an IPv4 header (RFC 3168, 5)
constexpr std::uint32_t kIpv4Bits = 160;

// "TiercastEgress.red.average_0" -> "average", as the P4 source has it before p4c made it unique.
std::string source_name(const std::string& name) {
  std::string text = name.substr(name.rfind('.') + 1);
  if (const auto number = text.find_last_not_of("0123456789"); number != std::string::npos &&
                                                               number + 1 < text.size() &&
                                                               text[number] == '_' && number > 0) {
    text.resize(number);
  }
  return text;
}

bool looks_like_ipv4(const Header& header) {
  const std::string known = header.name + " " + header.type;
  return header.fixed_bits == kIpv4Bits &&
         (known.find("ipv4") != std::string::npos || known.find("IPv4") != std::string::npos);
}

bool assigns(const Instruction& i) {
  return i.op == Op::kStore || i.op == Op::kCopyCell || i.op == Op::kSetCell ||
         i.op == Op::kCopyArgument;
}

// Whether the code only assigns a field to another, perhaps of another width.
bool copies(const Image& image, CodeRange range) {
  return std::all_of(image.code.begin() + range.begin, image.code.begin() + range.end,
                     [fields = 0](const Instruction& i) mutable {
                       if (i.op == Op::kField || i.op == Op::kCopyCell) return ++fields == 1;
                       return i.op == Op::kConstant || i.op == Op::kAnd || i.op == Op::kStore;
                     });
}

bool is_in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_in_word(text[at - 1])) && (end == text.size() || !is_in_word(text[end]))) {
      return true;
    }
  }
  return false;
}

// p4c prefixes names when it inlines controls: "red_p_b" is "p_b", if the source says that.
std::string_view name_in(std::string_view source, std::string_view name) {
  for (std::string_view rest = name;;) {
    if (has_word(source, rest)) return rest;
    const auto next = rest.find('_');
    if (next == std::string_view::npos || next + 1 == rest.size()) return name;
    rest.remove_prefix(next + 1);
  }
}

template <class Visit>
void for_actions_of(const Image& image, const Node& node, Visit visit) {
  if (node.kind == Node::Kind::kAction) visit(image.actions[node.index]);
  if (node.kind != Node::Kind::kTable) return;
  for (const std::uint32_t action : image.tables[node.index].actions) visit(image.actions[action]);
}

}  // namespace

DecisionPlan::DecisionPlan(const Image& of)
    : image(of), dependence(of), names(of.phv_cells), writers(of.phv_cells) {
  for (const Header& header : image.headers) {
    std::uint32_t bit = 0;
    for (const Field& field : header.fields) {
      if (field.name == "$valid$") continue;
      const bool local = header.metadata && header.name == "scalars";
      names[field.cell] = local || header.metadata ? source_name(field.name)
                                                   : source_name(header.name) + "." + field.name;
      const std::uint32_t end = bit + field.width;
      if (!header.metadata && !field.is_varbit) {
        if (field.name == "ecn" && field.width == 2) {
          ecn.push_back({field.cell, 0});
        } else if (looks_like_ipv4(header) && bit <= kEcnBegins && end >= kEcnEnds &&
                   field.width <= kCellBits) {
          ecn.push_back({field.cell, end - kEcnEnds});
        }
      }
      bit = end;
    }
    names[header.valid_cell] = source_name(header.name) + ".isValid()";
  }
  const std::uint32_t fate = image.verdict.drop != 0 ? image.verdict.drop : image.verdict.port;
  watched.push_back(fate);
  for (const EcnField& field : ecn) watched.push_back(field.cell);
  for (std::uint32_t n = 0; n < image.nodes.size(); ++n) {
    bool marks = false, decides = false;
    for_actions_of(image, image.nodes[n], [&](const Action& action) {
      for (std::uint32_t at = action.code.begin; at < action.code.end; ++at) {
        const Instruction& i = image.code[at];
        decides |= i.op == Op::kMarkToDrop;
        if (!assigns(i)) continue;
        marks |= is_ecn(i.a);
        decides |= i.a == fate;
        if (writers[i.a].empty() || writers[i.a].back() != n) writers[i.a].push_back(n);
      }
    });
    if (marks) marking_nodes.push_back(n);
    if (decides) fate_nodes.push_back(n);
  }
}

bool DecisionPlan::is_ecn(std::uint32_t cell) const {
  return std::any_of(ecn.begin(), ecn.end(), [&](const EcnField& f) { return f.cell == cell; });
}

bool Decision::varies(const Effects& effects) const {
  if (!effects.draws.empty() || effects.meters) return true;
  const auto reads_register = [](const Effects::Access& one) { return !one.is_write; };
  if (std::any_of(effects.accesses.begin(), effects.accesses.end(), reads_register)) return true;
  return std::any_of(effects.reads.begin(), effects.reads.end(), [&](const Effects::Read& read) {
    return constant_.empty() || !constant_[read.cell];
  });
}

void Decision::set_varying(const Effects& effects, bool varying) {
  if (constant_.empty()) constant_.resize(plan_.image.phv_cells);
  for (const Effects::Write& write : effects.writes) {
    for (std::uint32_t c = 0; c < write.cells; ++c) constant_[write.cell + c] = !varying;
  }
}

void Decision::branch(std::uint32_t node, bool taken, Effects effects) {
  Deed deed{Kind::kBranch, node};
  deed.place = plan_.image.nodes[node].place;
  deed.taken = taken;
  deed.varies = varies(effects);
  deed.effects = std::move(effects);
  deeds_.push_back(std::move(deed));
}

void Decision::table(std::uint32_t node, const Cell* phv, std::string text) {
  Deed deed{Kind::kTable, node};
  for (const Key& key : plan_.image.tables[plan_.image.nodes[node].index].keys) {
    deed.effects.read(phv, key.cell, key.width);
  }
  deed.varies = !deed.effects.reads.empty();
  deed.text = std::move(text);
  deeds_.push_back(std::move(deed));
}

void Decision::statement(std::uint32_t node, const Action& action, const Statement& statement,
                         Effects effects, const Cell* after, bool marks) {
  Deed deed{Kind::kStatement, node};
  deed.place = statement.place;
  deed.action = &action;
  deed.marks = marks;
  deed.copies = copies(plan_.image, statement.code);
  marked_ |= marks;
  deed.varies = varies(effects);
  set_varying(effects, deed.varies);
  for (const Effects::Write& write : effects.writes) {
    if (write.cells == 1) deed.results.emplace_back(write.cell, after[write.cell]);
  }
  deed.effects = std::move(effects);
  deeds_.push_back(std::move(deed));
}

std::size_t Decision::last_of_node(std::uint32_t node) const {
  for (std::size_t i = deeds_.size(); i-- > 0;) {
    if (deeds_[i].node == node && deeds_[i].kind != Kind::kStatement) return i;
  }
  return deeds_.size();
}

bool Decision::ran(std::uint32_t node) const {
  return std::any_of(deeds_.begin(), deeds_.end(),
                     [&](const Deed& deed) { return deed.node == node; });
}

void Decision::add_deviations(std::uint32_t node, std::size_t first, std::size_t end,
                              std::vector<bool>& seen, std::vector<bool>& wanted) const {
  if (seen[node]) return;
  seen[node] = true;
  for (const std::uint32_t branch : plan_.dependence.of(node)) {
    const std::size_t deed = last_of_node(branch);
    if (deed == deeds_.size()) {
      add_deviations(branch, first, end, seen, wanted);
    } else if (deed >= first && deed < end) {
      wanted[deed] = true;
    }
  }
}

void Decision::add_deviations(const Effects& effects, std::size_t reader,
                              std::vector<bool>& wanted) const {
  for (const Effects::Read& read : effects.reads) {
    std::size_t since = reader;  // after its last change
    const auto changes = [&](const Effects::Write& write) {
      return write.cell <= read.cell && read.cell < write.cell + write.cells;
    };
    while (since > 0) {
      const auto& writes = deeds_[since - 1].effects.writes;
      if (std::any_of(writes.begin(), writes.end(), changes)) break;
      --since;
    }
    std::vector<bool> seen(plan_.image.nodes.size());
    for (const std::uint32_t node : plan_.writers[read.cell]) {
      if (!ran(node)) add_deviations(node, since, reader, seen, wanted);
    }
  }
}

bool Decision::drops(const Deed& deed) const {
  const VerdictCells& verdict = plan_.image.verdict;
  const std::uint32_t fate = verdict.drop != 0 ? verdict.drop : verdict.port;
  return std::any_of(deed.effects.writes.begin(), deed.effects.writes.end(),
                     [&](const Effects::Write& write) {
                       return write.cell <= fate && fate < write.cell + write.cells;
                     });
}

Decision::Cut Decision::cut(Outcome outcome) const {
  Cut result;
  std::vector<bool> wanted(deeds_.size());
  std::vector<bool> seen(plan_.image.nodes.size());
  if (outcome == Outcome::kPassed) {
    for (const auto* nodes : {&plan_.marking_nodes, &plan_.fate_nodes}) {
      for (const std::uint32_t node : *nodes) {
        if (!ran(node)) add_deviations(node, 0, deeds_.size(), seen, wanted);
      }
    }
  } else {
    for (std::size_t i = deeds_.size(); i-- > 0;) {
      const Deed& deed = deeds_[i];
      if (deed.kind != Kind::kStatement) continue;
      if (outcome == Outcome::kMarked ? !deed.marks : !drops(deed)) continue;
      wanted[i] = true;
      result.by = deed.action->name;
      result.source = plan_.image.places[deed.place].source;
      break;
    }
  }
  std::set<std::uint32_t> cells;
  for (std::size_t i = deeds_.size(); i-- > 0;) {
    const Deed& deed = deeds_[i];
    const auto defines = [&](const Effects::Write& write) {
      const auto first = cells.lower_bound(write.cell);
      return first != cells.end() && *first < write.cell + write.cells;
    };
    const auto& writes = deed.effects.writes;
    if (!wanted[i] && !std::any_of(writes.begin(), writes.end(), defines)) continue;
    wanted[i] = true;
    for (const Effects::Write& write : writes) {
      cells.erase(cells.lower_bound(write.cell), cells.lower_bound(write.cell + write.cells));
    }
    for (const Effects::Read& read : deed.effects.reads) cells.insert(read.cell);
    add_deviations(deed.effects, i, wanted);
    if (deed.kind == Kind::kStatement) {
      if (const std::size_t table = last_of_node(deed.node); table < i) wanted[table] = true;
    }
    for (const std::uint32_t branch : plan_.dependence.of(deed.node)) {
      if (const std::size_t other = last_of_node(branch); other < i) wanted[other] = true;
    }
  }
  for (std::size_t i = 0; i < deeds_.size(); ++i) {
    const bool decides = deeds_[i].marks || (outcome == Outcome::kDropped && drops(deeds_[i]));
    if (!wanted[i] || !(deeds_[i].varies || decides)) continue;
    if (std::string text = line(deeds_[i]); !text.empty()) result.lines.push_back(std::move(text));
  }
  return result;
}

std::vector<std::pair<std::string, std::string>> Decision::registers() const {
  std::map<std::uint32_t, Cell> last;
  for (const Deed& deed : deeds_) {
    for (const Effects::Access& one : deed.effects.accesses) last[one.array] = one.value;
  }
  std::vector<std::pair<std::string, std::string>> result;
  for (const auto& [array, value] : last) {
    result.emplace_back(plan_.image.registers[array].name, std::to_string(value));
  }
  return result;
}

void Decision::add_values(const Effects& effects, const std::string& source,
                          std::string& text) const {
  std::set<std::uint32_t> told;
  std::string values;
  const auto add = [&](const std::string& what) {
    if (!values.empty()) values += ", ";
    values += what;
  };
  for (const Effects::Read& read : effects.reads) {
    const std::string& name = plan_.names[read.cell];
    if (name.empty() || read.width > kCellBits || !told.insert(read.cell).second) continue;
    add(std::string(name_in(source, name)) + " " + std::to_string(read.value));
  }
  for (const Effects::Draw& draw : effects.draws) {
    add("random number " + std::to_string(draw.value) + " of " + std::to_string(draw.low) + ".." +
        std::to_string(draw.high));
  }
  if (!values.empty()) text += " (" + values + ")";
}

std::string Decision::line(const Deed& deed) const {
  if (deed.kind == Kind::kTable) return deed.text;
  const Place& place = plan_.image.places[deed.place];
  std::string text = place.source.empty() ? "" : place.source + " ";
  if (deed.kind == Kind::kBranch) {
    text += "if (" + (place.text.empty() ? "..." : place.text) + ")";
    text += deed.taken ? ": yes" : ": no";
    add_values(deed.effects, place.text, text);
    return text;
  }
  const Image& image = plan_.image;
  for (const Effects::Access& one : deed.effects.accesses) {
    text += image.registers[one.array].name + "[" + std::to_string(one.index) + "] is " +
            (one.is_write ? "set to " : "") + std::to_string(one.value);
    return text;
  }
  if (!deed.effects.draws.empty()) {
    const Effects::Draw& draw = deed.effects.draws.front();
    return text + "random number of " + std::to_string(draw.low) + ".." +
           std::to_string(draw.high) + ": " + std::to_string(draw.value);
  }
  if (deed.copies && !deed.marks && !drops(deed)) return {};
  std::string result;
  for (const auto& [cell, value] : deed.results) {
    if (!plan_.names[cell].empty()) {
      result += (result.empty() ? "" : ", ");
      result += name_in(place.text, plan_.names[cell]);
      result += " = " + std::to_string(value);
    }
  }
  text += result.empty() ? place.text : result;
  if (!place.text.empty() && place.text.find("...") == std::string::npos && !result.empty()) {
    text += ": " + place.text;
  }
  add_values(deed.effects, place.text, text);
  return text;
}

}  // namespace tiercast::engine
