#include "dataplane/accounts/accounts.h"

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string_view>

namespace tiercast::accounts {
namespace {

constexpr std::uint32_t kGroupPrefix = 0x3bf0;  // 239.192.0.0/14: session << 3 | rank follow
constexpr std::uint32_t kRanks = 8;
// p4src/lib/fates.p4
enum EgressFate : std::size_t { kLeft, kLeftMarked, kDropped, kPruned, kEgressFates };
enum IngressFate : std::size_t { kForwarded, kInvalid, kExpired, kNoGroup, kNoRoute };
constexpr std::size_t kIngressFates = 8;

using Cells = std::span<const engine::CounterValue>;

// Empty without such a counter.
Cells cells(const engine::Switch& from, std::string_view counter) {
  const auto found = from.counter_cells(counter);
  return found.ok() ? *found : Cells();
}

engine::Bytes network_order(std::uint32_t value) {
  return {static_cast<char>(value >> 8 & 0xff), static_cast<char>(value & 0xff)};
}

// The cell of the session's rank 0 at this port, if it has cells of its own.
std::optional<std::size_t> session_cell(const engine::Switch& from, std::uint32_t port,
                                        std::uint32_t session) {
  engine::TableEntry wanted;
  wanted.match = {engine::FieldMatch::exact(network_order(port)),
                  engine::FieldMatch::exact(network_order(session))};
  const auto found = from.read_entry("session_cells", wanted);
  if (!found.ok() || found->action.arguments.size() != 1) return std::nullopt;
  std::size_t first = 0;
  for (const char byte : found->action.arguments[0]) {
    first = first << 8 | static_cast<unsigned char>(byte);
  }
  return first;
}

void add_fates(Cells fates, std::size_t cell, Counts& counts) {
  if ((cell + 1) * kEgressFates > fates.size()) return;
  const Cells of_cell = fates.subspan(cell * kEgressFates, kEgressFates);
  counts.left += of_cell[kLeft].packets + of_cell[kLeftMarked].packets;
  counts.marked += of_cell[kLeftMarked].packets;
  counts.policy_drops += of_cell[kDropped].packets;
  counts.pruned += of_cell[kPruned].packets;
}

IngressCounts ingress_counts(Cells fates, std::uint32_t port) {
  if ((port + 1) * kIngressFates > fates.size()) return {};
  const Cells of_port = fates.subspan(port * kIngressFates, kIngressFates);
  return {of_port[kForwarded].packets, of_port[kInvalid].packets, of_port[kExpired].packets,
          of_port[kNoGroup].packets, of_port[kNoRoute].packets};
}

}  // namespace

engine::LabelRule by_group() {
  return {"ipv4", "dst_addr", [](std::uint64_t address) {
            return address >> 18 == kGroupPrefix
                       ? 1 + static_cast<std::uint32_t>(address & 0x3ffff)
                       : 0;
          }};
}

Counts& Counts::operator+=(const Counts& other) {
  entered += other.entered;
  queue_drops += other.queue_drops;
  waiting += other.waiting;
  left += other.left;
  marked += other.marked;
  policy_drops += other.policy_drops;
  pruned += other.pruned;
  return *this;
}

bool PortAccounts::balanced() const {
  for (const SessionCounts& session : sessions) {
    if (!session.counts.balanced()) return false;
  }
  return true;
}

PortAccounts read(const engine::Switch& from, std::uint32_t port) {
  const Cells egress = cells(from, "egress_fates");
  PortAccounts accounts;
  accounts.by_program = !egress.empty();
  accounts.ingress = ingress_counts(cells(from, "ingress_fates"), port);

  SessionCounts others;  // what is counted in the port's own cell
  add_fates(egress, port, others.counts);
  std::map<std::uint32_t, std::optional<std::size_t>> first_cells;  // by session
  std::vector<SessionCounts> sessions;
  for (const engine::LabelCounts& label : from.label_counts(port)) {
    Counts counts;
    counts.entered = label.entered;
    counts.queue_drops = label.dropped;
    counts.waiting = label.waiting();
    const std::uint32_t session = (label.label - 1) / kRanks, rank = (label.label - 1) % kRanks;
    std::optional<std::size_t> first;
    if (label.label != 0 && accounts.by_program) {
      const auto [known, is_new] = first_cells.try_emplace(session);
      if (is_new) known->second = session_cell(from, port, session);
      first = known->second;
    }
    if (label.label == 0 || (accounts.by_program && !first)) {
      others.counts += counts;
      continue;
    }
    if (first) add_fates(egress, *first + rank, counts);
    sessions.push_back({static_cast<int>(session), static_cast<int>(rank), counts});
  }
  if (others.counts != Counts()) accounts.sessions.push_back(others);
  accounts.sessions.insert(accounts.sessions.end(), sessions.begin(), sessions.end());
  for (const SessionCounts& session : accounts.sessions) accounts.total += session.counts;
  return accounts;
}

std::string policy(const engine::Switch& of, std::uint32_t port) {
  engine::TableEntry wanted;
  wanted.match = {engine::FieldMatch::exact(network_order(port))};
  const auto found = of.read_entry("port_marking", wanted);
  return found.ok() ? found->action.name : std::string();
}

}  // namespace tiercast::accounts
