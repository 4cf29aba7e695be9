#include "hosts/receiver.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "agent/address.h"
#include "agent/clock.h"
#include "protocols/wire/wire.h"

namespace tiercast::hosts {
namespace {

// Batches taken before the core's timer is looked at again.
constexpr unsigned kMaxBatches = 8;
constexpr Duration kLinger = Duration::seconds(2);

agent::UniqueFd connect_feedback(const std::string& interface, std::uint32_t sender) {
  agent::UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
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
                   std::uint32_t sender, agent::UniqueFd output, agent::EventLoop& loop,
                   agent::Telemetry& telemetry)
    : session_(session),
      sender_(sender),
      telemetry_(telemetry),
      core_(scheme.make_receiver(session)),
      groups_(interface, wire::kDataPort),
      feedback_(connect_feedback(interface, sender)),
      output_(std::move(output)) {
  loop.watch(groups_.descriptor(), [] {});  // read in run(), which follows every wake-up
}

void Receiver::start(Time now) {
  now_ = now;
  running_ = true;
  core_->start(now, *this);
}

void Receiver::membership(Time, int) {}

void Receiver::run(Time now) {
  now_ = now;
  receive_all();
  now_ = agent::monotonic_now();
  if (core_->next_timer() <= now_) core_->timer(now_, *this);
}

Time Receiver::next_deadline() const { return core_->next_timer(); }

// Not at once: the sender may ask again until it knows that this receiver has everything.
bool Receiver::finished() const {
  return core_->counters().complete && agent::monotonic_now() - heard_ > kLinger;
}

void Receiver::stop(Time now) {
  now_ = now;
  core_->stop(now, *this);
  running_ = false;
}

void Receiver::receive_all() {
  for (unsigned batches = 0; batches < kMaxBatches; ++batches) {
    const auto datagrams = groups_.receive();
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
  now_ = datagram.arrival;
  heard_ = now_;
  if (!unicast) note_first_packet(rank, datagram);
  core_->receive(
      now_, {datagram.message, datagram.length + kIpUdpHeaderBytes, datagram.ce, datagram.source},
      *this);
}

void Receiver::note_first_packet(std::uint32_t rank, const Datagram& datagram) {
  // A packet of an earlier subscription may still have been in the socket.
  if (const auto joined = joining_[rank]; joined && datagram.arrival >= *joined) {
    joining_[rank].reset();
    telemetry_.record(
        now_, "join",
        {{"rank", static_cast<double>(rank)},
         {"latency_us", static_cast<double>((datagram.arrival - *joined).ns()) / 1000}});
  }
}

void Receiver::send(Destination to, std::span<const std::byte> message) {
  // Multicast here is source-specific: what all receivers shall hear the sender reflects.
  if (to.kind != Destination::Kind::kSender) return;
  // A refusal that the sender's host sent back for an earlier message shows up here once; the
  // message itself then goes out.
  ssize_t sent = ::send(feedback_.get(), message.data(), message.size(), 0);
  if (sent < 0 && errno == ECONNREFUSED) {
    ++socket_.send_errors;
    sent = ::send(feedback_.get(), message.data(), message.size(), 0);
  }
  if (sent < 0) ++socket_.send_errors;
}

void Receiver::join(Rank rank) {
  if (rank >= session_.layers) return;
  joining_[rank] = agent::monotonic_now();
  groups_.join(wire::group_address(session_.session, rank));
}

void Receiver::leave(Rank rank) {
  if (rank >= session_.layers) return;
  joining_[rank].reset();
  groups_.leave(wire::group_address(session_.session, rank));
}

// A receiver has no layers to pace.
void Receiver::set_rate(Rank, Rate) {}
void Receiver::release(Rank, std::uint32_t) {}

void Receiver::deliver(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (output_.get() < 0) return;
  while (!bytes.empty()) {
    const ssize_t written =
        pwrite(output_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      throw std::system_error(errno, std::generic_category(), "writing the received object");
    }
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void Receiver::trace(std::string_view kind, std::span<const TraceField> fields) {
  telemetry_.record(now_, kind, fields);
}

void Receiver::report(Time now, bool second, bool) {
  const ReceiverCounters counters = core_->counters();
  telemetry_.record(now, "received", received_row(counters));
  socket_.dropped = groups_.dropped();
  if (second) telemetry_.record(now, "socket", socket_row(socket_, counters.invalid));
}

}  // namespace tiercast::hosts
