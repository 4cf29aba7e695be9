// A switch: its ports, one Program on the architecture that the program was written for, the
// traffic manager and the control API.
//
// The switch does no I/O, reads no clock and starts no thread. The caller hands in frames and the
// time, and receives the frames that leave through Output. Times are nanoseconds of one monotonic
// clock (int64, 0 or more). A time earlier than the latest one seen counts as the latest one. Not
// thread-safe.
//
// The ideal time of every event follows from the frames' arrival times and the ports' rates alone.
// A late call of advance() makes frames leave late, but delays no later event.
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
#include "dataplane/engine/image/limits.h"
#include "dataplane/engine/queues/port.h"

namespace tiercast::engine {

class ProfileMembers;
struct NativeProgram;

std::shared_ptr<PacketPool> make_packet_pool(const Program& program);

class Switch {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  static constexpr std::uint32_t kMaxPorts = kPortNumbers;

  using Options = SwitchOptions;

  // output must outlive the Switch. Throws std::invalid_argument if cpu_port is above 511.
  Switch(std::shared_ptr<const Program> program, Options options, Output& output);
  ~Switch();
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

  const Program& program() const;
  // Replaces the program. Tables, groups, sessions, counters and registers start afresh. Frames
  // that wait in queues or travel on wires are lost. Ports and their statistics stay.
  void set_program(std::shared_ptr<const Program> program);
  // Runs native code from now on, which must have been made from the program (native/generate.h);
  // null: flat code again. To be called between packets. Both treat every packet alike.
  void run_native(std::shared_ptr<const NativeProgram> code);

  // Adds a port, or changes it at now_ns. The rest of the frame in service is sent at the new rate.
  // Frames on the wire keep their times, and no frame overtakes an earlier one. A queue that is
  // longer than its new limit drains without loss. kInvalidArgument: the port number is above 511
  // or is the CPU or drop port, or a rate or delay is negative or not finite.
  Status set_port(std::uint32_t port, const PortConfig& config, std::int64_t now_ns = 0);
  // The port's waiting frames are lost. kNotFound if there is no such port.
  Status remove_port(std::uint32_t port);
  // Says whether the port's link works. Action groups skip members that watch a port that is down;
  // nothing else changes. Ports start up. kNotFound if there is no such port.
  Status set_port_up(std::uint32_t port, bool up);
  std::vector<std::uint32_t> ports() const;
  Result<PortConfig> port_config(std::uint32_t port) const;
  // All zero for a port that does not exist. reset_max restarts the maxima at the current queue
  // length.
  PortStats stats(std::uint32_t port, bool reset_max = false);
  // The counts of the labels seen, in ascending order. They survive the port's removal, as the
  // program's counters do. Empty for a number above 511.
  std::vector<LabelCounts> label_counts(std::uint32_t port) const;
  SwitchStats switch_stats() const;

  // Handles a frame that arrived on `port` at now_ns. On the CPU port the frame starts with the
  // packet_out header.
  void receive(std::uint32_t port, std::span<const std::byte> frame, std::int64_t now_ns);
  // The same, without a copy of the frame. The memory is the engine's until
  // FrameLender::take_back() or Output::transmit_lent().
  void receive(std::uint32_t port, const LentFrame& frame, std::int64_t now_ns);
  // The time of the next event, by which advance() must be called. kNever if nothing waits.
  std::int64_t next_event() const;
  // Performs all events due at or before now_ns, in time order.
  void advance(std::int64_t now_ns);

  // For a simulator that must know frames before they leave. Calls Output::transmit() now, with the
  // times at which they leave, for the frames that leave the port's wire before until_ns. From
  // then on they count as sent, so no statistics should be read, and no port changed, before
  // until_ns.
  void deliver_before(std::uint32_t port, std::int64_t until_ns);

  // Traces the received frames that `sink` wants, from now on. Null switches tracing off, also for
  // frames already inside. `sink` must outlive the Switch or be replaced first.
  void set_trace(TraceSink* sink);

  // --- Control plane. A name that the program does not have: kNotFound. ---

  Status insert_entry(std::string_view table, const TableEntry& entry);
  Status modify_entry(std::string_view table, const TableEntry& entry);
  // Finds the entry by match and priority; the action is ignored.
  Status delete_entry(std::string_view table, const TableEntry& entry);
  Result<std::vector<TableEntry>> read_entries(std::string_view table) const;
  Result<TableEntry> read_entry(std::string_view table, const TableEntry& entry) const;
  Status set_default_action(std::string_view table, const ActionCall& action);
  // Restores the default action that the program declares.
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

  // Members and groups of an action profile; the caller chooses their numbers. kInvalidArgument: a
  // group in a profile without a selector, a member's action that no table of the profile has, or a
  // weight of 0. kFailedPrecondition: an entry or group still uses what would be removed.
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

  // Indirect counters and registers. kInvalidArgument: an index is out of range.
  Result<CounterValue> read_counter(std::string_view counter, std::uint64_t index) const;
  // All cells of an indirect counter; valid until the next set_program().
  Result<std::span<const CounterValue>> counter_cells(std::string_view counter) const;
  Status write_counter(std::string_view counter, CellRange cells, CounterValue value);
  Result<Bytes> read_register(std::string_view name, std::uint64_t index) const;
  Status write_register(std::string_view name, CellRange cells, const Bytes& value);

  // Indirect meters. A write fills the bursts. Without a config every packet is green.
  Result<std::optional<MeterConfig>> read_meter(std::string_view name, std::uint64_t index) const;
  Status write_meter(std::string_view name, CellRange cells, std::optional<MeterConfig> config);
  // The direct meter of an entry.
  Status write_entry_meter(std::string_view table, const TableEntry& entry,
                           std::optional<MeterConfig> config);

  // The switch collects digests only while they have a config.
  Status configure_digest(std::string_view name, std::optional<DigestConfig> config);
  Result<std::optional<DigestConfig>> digest_config(std::string_view name) const;
  // Digests of the acknowledged list may be sent again. A list that was never sent, or is already
  // acknowledged, is ignored.
  Status acknowledge_digest(std::string_view name, std::uint64_t list_id);

  Status write_value_set(std::string_view name, std::vector<ValueSetMember> members);
  Result<std::vector<ValueSetMember>> read_value_set(std::string_view name) const;

  // The names that p4c gave the program's hashes and checksums.
  std::vector<std::string> calculations() const;
  // kInvalidArgument for a calculation that is not a custom CRC.
  Status write_crc(std::string_view calculation, const CrcParameters& parameters);

 private:
  Result<ProfileMembers*> profile(std::string_view name) const;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tiercast::engine
