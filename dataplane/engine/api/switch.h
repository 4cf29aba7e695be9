// A switch: ports, one Program on the architecture that it was made for, the traffic manager, and
// the control API.
//
// No I/O, no clock, no thread: the caller hands in frames and the time, and gets the frames that
// leave through Output. Times are nanoseconds of one monotonic clock (int64, 0 or more);
// a time before the latest one seen counts as that latest one. Not thread-safe.
//
// Every event has an ideal time that follows from the frames' arrival times and the ports' rates
// alone: calling advance() late makes frames leave late, but moves no later event.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/engine/api/program.h"
#include "dataplane/engine/control/control.h"
#include "dataplane/engine/control/output.h"
#include "dataplane/engine/control/status.h"
#include "dataplane/engine/control/switch_options.h"
#include "dataplane/engine/control/trace.h"
#include "dataplane/engine/queues/port.h"

namespace tiercast::engine {

class ProfileMembers;

std::shared_ptr<PacketPool> make_packet_pool(const Program& program);

class Switch {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  static constexpr std::uint32_t kMaxPorts = 512;  // port numbers are bit<9>

  using Options = SwitchOptions;

  // output must outlive the Switch. Throws std::invalid_argument if cpu_port is above 511.
  Switch(std::shared_ptr<const Program> program, Options options, Output& output);
  ~Switch();
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

  const Program& program() const;
  // Replaces the program: tables, groups, sessions, counters and registers start again, frames
  // waiting in queues or on wires are lost; ports and their statistics stay.
  void set_program(std::shared_ptr<const Program> program);

  // Adds a port or changes it at now_ns. The rest of the frame in service is sent at the new rate;
  // frames on the wire keep their times, and no frame overtakes an earlier one; a queue longer than
  // a new limit drains without loss. kInvalidArgument: a port number above 511, the
  // CPU or drop port, a negative or non-finite rate or delay.
  Status set_port(std::uint32_t port, const PortConfig& config, std::int64_t now_ns = 0);
  // Its waiting frames are lost. kNotFound.
  Status remove_port(std::uint32_t port);
  // Whether its link works: action groups do not choose members that watch a port that is down.
  // Nothing else changes. Ports are up at first. kNotFound.
  Status set_port_up(std::uint32_t port, bool up);
  std::vector<std::uint32_t> ports() const;
  Result<PortConfig> port_config(std::uint32_t port) const;
  // All zero for a port that does not exist. reset_max: restart the maxima at the present length.
  PortStats stats(std::uint32_t port, bool reset_max = false);
  // For the labels that were seen, in ascending order. They outlive the port's removal, as the
  // program's counters do. A number above 511 has none.
  std::vector<LabelCounts> label_counts(std::uint32_t port) const;
  SwitchStats switch_stats() const;

  // A frame that arrived on `port` at now_ns. On the CPU port it carries the packet_out header.
  void receive(std::uint32_t port, std::span<const std::byte> frame, std::int64_t now_ns);
  // The time of the next event, for which advance() must be called; kNever if nothing waits.
  std::int64_t next_event() const;
  // Performs everything due at or before now_ns, in the order of its times.
  void advance(std::int64_t now_ns);

  // From now on traces the received frames that sink wants. Null: none, and the frames inside are
  // no longer traced either. sink must outlive the Switch or be replaced before it ends.
  void set_trace(TraceSink* sink);

  // --- Control plane. Names unknown to the program: kNotFound. ---

  Status insert_entry(std::string_view table, const TableEntry& entry);
  Status modify_entry(std::string_view table, const TableEntry& entry);
  // Match and priority identify it; the action is ignored.
  Status delete_entry(std::string_view table, const TableEntry& entry);
  Result<std::vector<TableEntry>> read_entries(std::string_view table) const;
  Result<TableEntry> read_entry(std::string_view table, const TableEntry& entry) const;
  Status set_default_action(std::string_view table, const ActionCall& action);
  // Restores what the program declares.
  Status reset_default_action(std::string_view table);
  Result<ActionCall> default_action(std::string_view table) const;
  // The direct counter of an entry.
  Status write_entry_counter(std::string_view table, const TableEntry& entry, CounterValue value);

  // group: 1 to 65535. An empty group drops.
  Status insert_multicast_group(std::uint32_t group, const std::vector<Replica>& replicas);
  Status modify_multicast_group(std::uint32_t group, const std::vector<Replica>& replicas);
  Status delete_multicast_group(std::uint32_t group);
  Result<std::vector<Replica>> multicast_group(std::uint32_t group) const;
  std::vector<std::uint32_t> multicast_groups() const;

  // Members of an action profile, by numbers of the caller's. kInvalidArgument: a group in a
  // profile without selector, a member that is used by no table's actions, a weight of 0;
  // kFailedPrecondition: an entry or group still uses what would be removed.
  Status insert_member(std::string_view profile, std::uint32_t member, const ActionCall& action);
  Status modify_member(std::string_view profile, std::uint32_t member, const ActionCall& action);
  Status delete_member(std::string_view profile, std::uint32_t member);
  Result<ActionCall> member(std::string_view profile, std::uint32_t member) const;
  Result<std::vector<std::uint32_t>> members(std::string_view profile) const;
  Status insert_group(std::string_view profile, std::uint32_t group, ActionGroup config);
  Status modify_group(std::string_view profile, std::uint32_t group, ActionGroup config);
  Status delete_group(std::string_view profile, std::uint32_t group);
  Result<ActionGroup> group(std::string_view profile, std::uint32_t group) const;
  Result<std::vector<std::uint32_t>> groups(std::string_view profile) const;
  Result<ProfileUsage> profile_usage(std::string_view profile) const;

  // session: 1 to 32767.
  Status insert_clone_session(std::uint32_t session, const CloneSession& config);
  Status modify_clone_session(std::uint32_t session, const CloneSession& config);
  Status delete_clone_session(std::uint32_t session);
  Result<CloneSession> clone_session(std::uint32_t session) const;
  std::vector<std::uint32_t> clone_sessions() const;

  // Indirect counters and registers; kInvalidArgument for an index outside.
  Result<CounterValue> read_counter(std::string_view counter, std::uint64_t index) const;
  // All cells of an indirect counter; valid until the next set_program().
  Result<std::span<const CounterValue>> counter_cells(std::string_view counter) const;
  Status write_counter(std::string_view counter, std::uint64_t index, CounterValue value);
  Result<Bytes> read_register(std::string_view name, std::uint64_t index) const;
  Status write_register(std::string_view name, std::uint64_t index, const Bytes& value);

  // Indirect meters; the burst is full after a write. No config: every packet is green.
  Result<std::optional<MeterConfig>> read_meter(std::string_view name, std::uint64_t index) const;
  Status write_meter(std::string_view name, std::uint64_t index, std::optional<MeterConfig> config);
  // The direct meter of an entry.
  Status write_entry_meter(std::string_view table, const TableEntry& entry,
                           std::optional<MeterConfig> config);

  // The switch collects digests only while there is a config.
  Status configure_digest(std::string_view name, std::optional<DigestConfig> config);
  Result<std::optional<DigestConfig>> digest_config(std::string_view name) const;
  // Its digests may then be sent again. No effect on a list that was never sent or is acknowledged.
  Status acknowledge_digest(std::string_view name, std::uint64_t list_id);

  Status write_value_set(std::string_view name, std::vector<ValueSetMember> members);
  Result<std::vector<ValueSetMember>> read_value_set(std::string_view name) const;

  // The names that p4c gave to the program's hashes and checksums.
  std::vector<std::string> calculations() const;
  // Only for calculations with a custom CRC: kInvalidArgument for others.
  Status write_crc(std::string_view calculation, const CrcParameters& parameters);

 private:
  Result<ProfileMembers*> profile(std::string_view name) const;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tiercast::engine
