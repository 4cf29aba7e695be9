// What is behind Switch: the pipelines between the ports and the traffic manager.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "dataplane/engine/api/switch.h"
#include "dataplane/engine/image/image.h"
#include "dataplane/engine/packet/packet_pool.h"
#include "dataplane/engine/queues/traffic_manager.h"
#include "dataplane/engine/run/digest_list.h"
#include "dataplane/engine/run/machine.h"
#include "dataplane/engine/run/tracer.h"
#include "dataplane/engine/tables/match_table.h"
#include "dataplane/engine/tables/profile_members.h"

namespace tiercast::engine {

static_assert(Switch::kMaxPorts == kPortNumbers);

// A program and its state: what set_program() replaces.
struct Loaded {
  Loaded(std::shared_ptr<const Program> loaded, const Switch::Options& options, Output& output,
         const PortSet& ports_down);
  MatchTable* table(std::string_view name);
  void find_label(const LabelRule& rule);

  std::shared_ptr<const Program> program;
  const Image& image;
  Externs externs;
  Machine machine;
  bool flat;  // whether flat code runs
  std::shared_ptr<PacketPool> owned_pool;
  PacketPool& pool;
  std::vector<std::unique_ptr<ProfileMembers>> profiles;
  std::vector<std::unique_ptr<MatchTable>> tables;
  std::vector<DigestGatherer> digests;
  std::unordered_map<std::uint32_t, std::vector<Replica>> groups;
  std::unordered_map<std::uint32_t, CloneSession> sessions;
  std::vector<Cell> kept;  // fields that survive a resubmission or recirculation
  std::uint32_t label_valid_cell = kNone;  // of LabelRule's header; kNone: all labels are 0
  std::uint32_t label_cell = kNone;        // of its field
};

struct Switch::State final : TrafficManager::Client {
  State(std::shared_ptr<const Program> program, Options options, Output& output);

  bool egress(std::uint32_t port, Packet& packet, std::uint32_t waiting,
              std::int64_t now_ns) override;
  void deliver(std::uint32_t port, const Packet& packet) override;
  void arrive(std::uint32_t port, Packet* packet, std::int64_t now_ns) override;
  void refused(std::uint32_t port, const Packet& packet) override;

  void receive(std::uint32_t port, std::span<const std::byte> frame, std::int64_t now_ns);
  void advance(std::int64_t now_ns);
  // Parses the packet and runs ingress on it; takes it.
  void ingress(Packet* packet, std::uint32_t instance_type);
  void start(Packet& packet, PacketState& state, std::uint32_t instance_type);
  // Whether the packet runs as flat code: a traced one runs node by node.
  bool runs_flat(const Packet& packet) const { return loaded->flat && packet.trace == 0; }
  void parse(PacketState& state, bool flat);
  // The nodes from `node` on, or the same as flat code.
  void run_pipeline(std::uint32_t node, std::uint32_t flat, PacketState& state);
  // The nodes from `node` on; observer is told of each, and runs the actions.
  template <class Observer>
  void run_nodes(std::uint32_t node, PacketState& state, Observer& observer);
  // Makes packet.buffer the frame that leaves; false, and counted, if that is too long.
  bool deparse(Packet& packet, const PacketState& state);
  void copy_phv(const Packet& from, Packet& to) const;
  void gather_digest(const PacketState& state);
  std::int64_t next_timer() const;
  void fire_timers();
  void find_timers();
  void clone(const Packet& original, const PacketState& state, bool from_egress);
  // Writes changed headers to the frame before it is shared, so that copies whose egress changes
  // nothing need no frame of their own.
  void rewrite_once(Packet& packet);
  void copy_to_replicas(Packet* packet, const std::vector<Replica>& replicas);
  std::uint32_t label_of(const Packet& packet) const;
  // The frame's size if it left as it is now.
  std::uint32_t bytes_to_queue(const Packet& packet) const;
  void enqueue(std::uint32_t port, Packet* packet, std::uint32_t bytes);
  // Ends a packet's life; tells it of a traced one.
  void drop(Packet* packet, const char* where, const char* reason);
  // False, and counted, if the packet went round too often to live on.
  bool next_generation(Packet& packet);
  void keep_fields(std::uint32_t list, const Cell* phv);
  void restore_fields(std::uint32_t list, Cell* phv) const;

  // Traced packets (pipeline_trace.cpp).
  [[gnu::cold]] void choose_trace(Packet& packet, std::uint32_t port);
  [[gnu::cold]] void parse_traced(const Packet& packet, PacketState& state);
  [[gnu::cold]] void run_traced(Packet& packet, PacketState& state, bool in_egress,
                                std::int64_t now_ns);
  [[gnu::cold]] void tell_again(const Packet& packet, std::string_view kind);
  [[gnu::cold]] void tell_replicate(const Packet& packet, std::uint32_t group,
                                    const std::vector<Replica>& replicas);
  [[gnu::cold]] void tell_clone(const Packet& original, const Packet& copy, std::uint32_t session,
                                const CloneSession& config);
  [[gnu::cold]] void tell_enqueue(const Packet& packet, std::uint32_t port, std::uint32_t bytes);
  [[gnu::cold]] void tell_dequeue(const Packet& packet, std::uint32_t port, std::uint32_t waiting,
                                  std::int64_t now_ns);
  [[gnu::cold]] void tell_leaves(const Packet& packet, std::uint32_t port);
  [[gnu::cold]] void tell_drop(const Packet& packet, std::string_view where,
                               std::string_view reason);

  Options options;
  Output& output;
  PortSet ports_down;
  std::unique_ptr<Loaded> loaded;
  std::unique_ptr<TrafficManager> ports;
  PacketList again;  // recirculated
  Tracer tracer;
  std::int64_t clock_ns = 0;
  SwitchStats stats;
  bool has_timers = false;  // the program has digests, or tables with time-outs
};

}  // namespace tiercast::engine
