#include "hosts/receiver.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "agent/address.h"
#include "agent/clock.h"
#include "agent/file.h"
#include "protocols/wire/wire.h"

namespace tiercast::hosts {
namespace {

// Batches to take before the core's timer is checked again.
constexpr unsigned kMaxBatches = 8;
constexpr Duration kLinger = Duration::seconds(2);

UniqueFd connect_feedback(const std::string& interface, std::uint32_t sender) {
  UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(wire::kFeedbackPort);
  to.sin_addr.s_addr = htonl(sender);
  if (fd.get() < 0 ||
      setsockopt(fd.get(), SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(),
                 static_cast<socklen_t>(interface.size())) != 0 ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
    throw std::system_error(
        errno, std::generic_category(),
        fmt::format("feedback to {} through {}", agent::format_ipv4(sender), interface));
  }
  return fd;
}

}  // namespace

Receiver::Receiver(const SessionConfig& session, const Scheme& scheme, const std::string& interface,
                   std::uint32_t sender, std::string output, agent::EventLoop& loop,
                   agent::Telemetry& telemetry)
    : session_(session),
      sender_(sender),
      telemetry_(telemetry),
      member_(scheme, session_, *this),
      groups_(interface, wire::kDataPort),
      unicast_(interface, wire::kDataPort),
      feedback_(connect_feedback(interface, sender)),
      output_path_(std::move(output)),
      output_(output_path_.empty() ? UniqueFd() : agent::create_file(output_path_)) {
  unicast_.connect(sender, wire::kDataPort);
  for (const GroupSocket* socket : {&groups_, &unicast_}) {
    // run(), which follows every wake-up, reads it.
    loop.watch(socket->descriptor(), [] {}, [this] { ++cleared_errors_; });
  }
}

void Receiver::welcome(const v1::Welcome& welcome) { seal_with(welcome.keys()); }

void Receiver::seal_with(const v1::Keys& own) {
  const auto keys = agent::keys_of(own);
  if (!keys) return;
  sealer_.emplace(keys->feedback, keys->nonce);
  opener_.emplace(keys->group, keys->nonce);
}

void Receiver::start(Time now) { member_.start(now); }

void Receiver::membership(Time, int) {}

void Receiver::run(Time) {
  receive_all(groups_);
  receive_all(unicast_);
  member_.run(agent::monotonic_now());
}

Time Receiver::next_deadline() const { return member_.next_call(); }

// It waits a while, because the sender may ask again until it knows that this receiver has
// everything.
bool Receiver::finished() const {
  return member_.counters().complete && agent::monotonic_now() - heard_ > kLinger;
}

std::string Receiver::fault_of_object() const {
  if (output_.get() < 0) return "";
  const ReceiverCounters counters = member_.counters();
  if (!wanted_) {
    if (counters.complete) return "";
    return fmt::format("the object is not complete: {} bytes of it were received",
                       counters.delivered);
  }
  const agent::Digest received = agent::sha256_of_file(output_.get());
  if (received == *wanted_) return "";
  return fmt::format("the object is not its sender's: received SHA-256 {}{}, sent {}",
                     agent::format_digest(received), counters.complete ? "" : ", not complete",
                     agent::format_digest(*wanted_));
}

void Receiver::stop(Time now) { member_.stop(now); }

void Receiver::receive_all(GroupSocket& from) {
  for (unsigned batches = 0; batches < kMaxBatches; ++batches) {
    const auto datagrams = from.receive();
    for (const Datagram& datagram : datagrams) handle(datagram);
    if (datagrams.size() < GroupSocket::kBatch) return;
  }
}

void Receiver::handle(const Datagram& datagram) {
  const std::uint32_t rank = datagram.destination - wire::group_address(session_.session, 0);
  const bool unicast = !agent::is_multicast(datagram.destination);
  if (datagram.source != sender_ || (rank >= session_.layers && !unicast)) {
    ++socket_.foreign;
    return;
  }
  std::span<const std::byte> message = datagram.message;
  if (!open(message)) return;
  heard_ = datagram.arrival;
  const auto group = unicast ? std::nullopt : std::optional(static_cast<Rank>(rank));
  member_.receive(datagram.arrival,
                  {message, datagram.length + kIpUdpHeaderBytes, datagram.ce, datagram.source},
                  group);
}

bool Receiver::open(std::span<const std::byte>& message) {
  wire::CommonHeader header;
  if (!opener_ || wire::parse_common(message, header) != wire::Error::kOk ||
      header.type != wire::Type::kControl) {
    return true;
  }
  switch (opener_->open(message)) {
    case agent::Seal::kIntact: return true;
    case agent::Seal::kForged: ++refused_.forged; break;
    case agent::Seal::kReplayed: ++refused_.replayed; break;
  }
  return false;
}

void Receiver::send(std::span<const std::byte> message) {
  if (sealer_) message = sealer_->seal(message);
  // If the sender's host refused an earlier message, or somebody says so in its name, the error
  // shows up here once. A second attempt then sends this message.
  ssize_t sent = ::send(feedback_.get(), message.data(), message.size(), 0);
  if (sent < 0 && is_of_the_network(errno)) {
    ++socket_.send_errors;
    sent = ::send(feedback_.get(), message.data(), message.size(), 0);
  }
  if (sent < 0) ++socket_.send_errors;
}

Time Receiver::join(Rank rank) {
  const Time now = agent::monotonic_now();
  groups_.join(wire::group_address(session_.session, rank));
  return now;
}

void Receiver::leave(Rank rank) { groups_.leave(wire::group_address(session_.session, rank)); }

void Receiver::first_packet(Time now, Rank rank, Duration since_join) {
  telemetry_.record(now, "join", join_row(rank, since_join));
}

void Receiver::deliver(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (output_.get() < 0) return;
  while (!bytes.empty()) {
    const ssize_t written =
        pwrite(output_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      throw std::system_error(errno, std::generic_category(),
                              fmt::format("--output: {}", output_path_));
    }
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void Receiver::trace(Time now, std::string_view kind, std::span<const TraceField> fields) {
  telemetry_.record(now, kind, fields);
}

void Receiver::report(Time now, bool second, bool) {
  const ReceiverCounters counters = member_.counters();
  telemetry_.record(now, "received", received_row(counters));
  socket_.dropped = groups_.dropped() + unicast_.dropped();
  if (!second) return;
  SocketCounters socket = socket_;
  socket.foreign += groups_.network_errors() + unicast_.network_errors() + cleared_errors_;
  telemetry_.record(now, "socket", socket_row(socket, counters.invalid));
  if (refused_.total() > 0) {
    telemetry_.record(now, "seal.refused", agent::seal_refused_row(refused_));
  }
}

}  // namespace tiercast::hosts
