// Connects a receiver core with the kernel's sockets: joins, data, feedback, counts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "agent/digest.h"
#include "agent/event_loop.h"
#include "agent/run.h"
#include "agent/seal.h"
#include "agent/telemetry.h"
#include "base/unique_fd.h"
#include "hosts/group_socket.h"
#include "protocols/core/core.h"
#include "protocols/core/registry.h"
#include "protocols/core/rows.h"
#include "protocols/driver/returning_receiver.h"

namespace tiercast::hosts {

class Receiver : public agent::Activity {
 public:
  // `sender`: IPv4 address in host order. Feedback goes there, and data is accepted only from
  // there. `output`: the file for a reliable scheme's object, which is created; empty: none.
  // All references must outlive the object.
  Receiver(const SessionConfig& session, const Scheme& scheme, const std::string& interface,
           std::uint32_t sender, std::string output, agent::EventLoop& loop,
           agent::Telemetry& telemetry);

  void welcome(const v1::Welcome& welcome) override;
  // Seals feedback, and refuses what the sender did not seal. To be called before start().
  void seal_with(const v1::Keys& own);
  void object(const agent::Digest& digest) override { wanted_ = digest; }
  // What is wrong with the object that was to be received: it is not complete, or has another
  // digest than somebody has said. Empty if nothing is, or without `output`. Not while it is being
  // received. It may read the whole file.
  std::string fault_of_object() const;

  void start(Time now) override;
  void membership(Time now, int top_rank) override;
  void run(Time now) override;
  Time next_deadline() const override;
  void stop(Time now) override;
  void report(Time now, bool second, bool last) override;
  bool finished() const override;

 private:
  friend class ReceiverDriver<Receiver>;

  void send(std::span<const std::byte> message);
  Time join(Rank rank);
  void leave(Rank rank);
  void first_packet(Time now, Rank rank, Duration since_join);
  void deliver(std::uint64_t offset, std::span<const std::byte> bytes);
  bool wants_records() const { return true; }
  void trace(Time now, std::string_view kind, std::span<const TraceField> fields);

  // Whether its seal is intact, if it must have one; then without the seal.
  bool open(std::span<const std::byte>& message);
  void receive_all(GroupSocket& from);
  void handle(const Datagram& datagram);

  const SessionConfig session_;
  const std::uint32_t sender_;
  agent::Telemetry& telemetry_;
  ReturningReceiver<Receiver> member_;
  GroupSocket groups_;
  GroupSocket
      unicast_;  // what the sender sends to this host alone; others here may have the same port
  UniqueFd feedback_;  // UDP, connected to the sender's feedback port
  const std::string output_path_;
  UniqueFd output_;
  std::optional<agent::Digest> wanted_;  // of the object

  Time heard_;  // when the last datagram of the session arrived
  SocketCounters socket_;
  std::uint64_t cleared_errors_ = 0;  // of the sockets that receive: by the loop
  // Both or neither: whether messages are sealed. Data is not.
  std::optional<agent::Sealer> sealer_;
  std::optional<agent::Opener> opener_;  // of the sender's control messages
  agent::SealRefusals refused_;
};

}  // namespace tiercast::hosts
