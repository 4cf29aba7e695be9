#include "dataplane/accounts/accounts.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace tiercast::accounts {
namespace {

constexpr std::uint32_t kGroupBase = 0xefc00000;  // 239.192.0.0/14, followed by session << 3 | rank
constexpr unsigned kGroupBits = 18;
constexpr std::uint32_t kRanks = 8;
// The rows of the counters in p4src/lib/fates.p4.
enum EgressFate : std::size_t { kLeft, kLeftMarked, kDropped, kPruned, kEgressFates };
enum IngressFate : std::size_t {
  kForwarded,
  kInvalid,
  kExpired,
  kNoGroup,
  kNoRoute,
  kRefused = 8,
  kPoliced
};
constexpr std::size_t kIngressColumns = engine::Switch::kMaxPorts;

using Cells = std::span<const engine::CounterValue>;

// Empty if there is no such counter.
Cells cells(const engine::Switch& from, std::string_view counter) {
  const auto found = from.counter_cells(counter);
  return found.ok() ? *found : Cells();
}

template <class Number>
engine::Bytes network_order(Number value) {
  engine::Bytes bytes;
  for (std::size_t i = sizeof value; i-- > 0;) bytes.push_back(static_cast<char>(value >> 8 * i));
  return bytes;
}

// The column of the group at port 0, if the program counts its packets separately.
std::optional<std::size_t> first_column(const engine::Switch& from, std::uint32_t group) {
  engine::TableEntry wanted;
  wanted.match = {engine::FieldMatch::exact(network_order(group))};
  const auto found = from.read_entry("group_columns", wanted);
  if (!found.ok() || found->action.arguments.size() != 1) return std::nullopt;
  std::size_t first = 0;
  for (const char byte : found->action.arguments[0]) {
    first = first << 8 | static_cast<unsigned char>(byte);
  }
  return first;
}

// 0 of a row or column that there is not.
std::uint64_t packets(Cells matrix, std::size_t columns, std::size_t row, std::size_t column) {
  const std::size_t cell = row * columns + column;
  return column < columns && cell < matrix.size() ? matrix[cell].packets : 0;
}

void add_fates(Cells fates, std::size_t column, Counts& counts) {
  const std::size_t columns = fates.size() / kEgressFates;
  const auto of = [&](EgressFate fate) { return packets(fates, columns, fate, column); };
  counts.left += of(kLeft) + of(kLeftMarked);
  counts.marked += of(kLeftMarked);
  counts.policy_drops += of(kDropped);
  counts.pruned += of(kPruned);
}

IngressCounts ingress_counts(Cells fates, std::uint32_t port) {
  const auto of = [&](IngressFate fate) { return packets(fates, kIngressColumns, fate, port); };
  return {of(kForwarded), of(kInvalid), of(kExpired), of(kNoGroup),
          of(kNoRoute),   of(kRefused), of(kPoliced)};
}

std::uint32_t label_of_address(std::uint64_t address) {
  return address >> kGroupBits == kGroupBase >> kGroupBits
             ? 1 + static_cast<std::uint32_t>(address - kGroupBase)
             : 0;
}

// Of Ethernet II with IPv4.
std::uint32_t label_of_frame(std::span<const std::byte> frame) {
  constexpr std::size_t kType = 12, kAddress = 30, kEnd = kAddress + 4;
  if (frame.size() < kEnd) return 0;
  const auto byte = [&](std::size_t at) { return std::to_integer<std::uint32_t>(frame[at]); };
  if (byte(kType) != 0x08 || byte(kType + 1) != 0x00 || byte(kType + 2) >> 4 != 4) return 0;
  std::uint32_t address = 0;
  for (std::size_t at = kAddress; at < kEnd; ++at) address = address << 8 | byte(at);
  return label_of_address(address);
}

}  // namespace

engine::LabelRule by_group() { return {"ipv4", "dst_addr", label_of_address, label_of_frame}; }

Counts& Counts::operator+=(const Counts& other) {
  entered += other.entered;
  queue_drops += other.queue_drops;
  waiting += other.waiting;
  down_drops += other.down_drops;
  link_losses += other.link_losses;
  duplicated += other.duplicated;
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

  SessionCounts others;  // packets counted in the port's own column
  add_fates(egress, port, others.counts);
  std::vector<SessionCounts> sessions;
  for (const engine::LabelCounts& label : from.label_counts(port)) {
    Counts counts;
    counts.entered = label.entered;
    counts.queue_drops = label.dropped;
    counts.waiting = label.waiting();
    counts.down_drops = label.down_dropped;
    counts.link_losses = label.lost;
    counts.duplicated = label.duplicated;
    counts.policy_drops = label.early_dropped;
    counts.marked = label.marked;
    if (!accounts.by_program) {
      counts.left = label.served - label.not_sent;
      counts.marked += label.egress_marked;
      counts.policy_drops += label.not_sent;
    }
    const std::uint32_t group = label.label - 1;  // session << 3 | rank
    std::optional<std::size_t> first;
    if (label.label != 0 && accounts.by_program) first = first_column(from, kGroupBase + group);
    if (label.label == 0 || (accounts.by_program && !first)) {
      others.counts += counts;
      continue;
    }
    if (first) add_fates(egress, *first + port, counts);
    const auto session = static_cast<int>(group / kRanks), rank = static_cast<int>(group % kRanks);
    sessions.push_back({session, rank, counts});
  }
  if (others.counts != Counts()) accounts.sessions.push_back(others);
  accounts.sessions.insert(accounts.sessions.end(), sessions.begin(), sessions.end());
  for (const SessionCounts& session : accounts.sessions) accounts.total += session.counts;
  return accounts;
}

std::string policy(const engine::Switch& of, std::uint32_t port) {
  if (const auto config = of.port_config(port); config.ok() && config->red) return "red";
  engine::TableEntry wanted;
  wanted.match = {engine::FieldMatch::exact(network_order(static_cast<std::uint16_t>(port)))};
  const auto found = of.read_entry("port_marking", wanted);
  return found.ok() ? found->action.name : std::string();
}

}  // namespace tiercast::accounts
