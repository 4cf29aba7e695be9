#include "dataplane/sender/worker/feedback_receiver.h"

#include <rte_prefetch.h>

#include <algorithm>
#include <cstring>

#include "protocols/wire/bytes.h"
#include "protocols/wire/udp_frame.h"

namespace tiercast::sender {
namespace {

using dpdk::Igmp;

constexpr unsigned kPrefetch = 3;  // frames ahead

}  // namespace

FeedbackReceiver::FeedbackReceiver(const SenderAddresses& addresses, Neighbour& gateway, Port& port,
                                   std::vector<Worker*> workers)
    : addresses_(addresses),
      gateway_(gateway),
      port_(port),
      workers_(std::move(workers)),
      sessions_(wire::kMaxSession + 1u),
      batches_(workers_.size()) {
  for (auto& session : sessions_) session.store(kNobody, std::memory_order_relaxed);
}

FeedbackReceiver::~FeedbackReceiver() {
  for (; next_ < count_; ++next_) rte_pktmbuf_free(burst_[next_]);
}

void FeedbackReceiver::enter(std::uint16_t session, std::uint8_t scheme, unsigned worker,
                             std::uint32_t slot) {
  sessions_[session].store(
      static_cast<std::uint64_t>(worker) << 40 | static_cast<std::uint64_t>(scheme) << 32 | slot,
      std::memory_order_release);
}

void FeedbackReceiver::remove(std::uint16_t session) {
  sessions_[session].store(kNobody, std::memory_order_release);
}

unsigned FeedbackReceiver::poll(Time now, unsigned limit) {
  std::array<std::byte, Neighbour::kFrameBytes> question;
  if (gateway_.ask(now, question)) [[unlikely]] {
    rte_mbuf* const mbuf = port_.allocate_buffer();
    if (mbuf != nullptr) {
      std::memcpy(rte_pktmbuf_append(mbuf, question.size()), question.data(), question.size());
      if (!send(mbuf)) rte_pktmbuf_free(mbuf);
    }
  }
  const auto prefetch = [this](unsigned i) {
    if (i < count_) rte_prefetch0(rte_pktmbuf_mtod(burst_[i], const void*));
  };
  if (next_ == count_) {
    count_ = port_.receive_burst(burst_);
    next_ = 0;
    for (unsigned i = 0; i < kPrefetch; ++i) prefetch(i);
  }
  const unsigned taken = std::min(limit, count_ - next_);
  for (unsigned i = 0; i < taken; ++i) {
    prefetch(next_ + kPrefetch);
    take(now, burst_[next_++]);
  }
  if (taken > 0) hand_on();
  return taken;
}

void FeedbackReceiver::hand_on() {
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    Batch& batch = batches_[i];
    if (batch.count == 0) continue;
    const std::span all(batch.frames.data(), batch.count);
    const std::size_t delivered = workers_[i]->deliver(all);
    handed_on_.add(delivered);
    ring_full_.add(all.size() - delivered);
    for (rte_mbuf* const lost : all.subspan(delivered)) rte_pktmbuf_free(lost);
    batch.count = 0;
  }
}

bool FeedbackReceiver::send(rte_mbuf* mbuf) {
  if (addresses_.vlan && !dpdk::insert_tag(*addresses_.vlan, mbuf)) return false;
  static_cast<FeedbackNote*>(rte_mbuf_to_priv(mbuf))->slot = kAnswer;
  return workers_.front()->deliver(std::span(&mbuf, 1)) == 1;
}

// Every path frees the buffer or passes it on.
void FeedbackReceiver::take(Time now, rte_mbuf* mbuf) {
  received_.add();
  const auto discard = [mbuf](Counter& counter) {
    counter.add();
    rte_pktmbuf_free(mbuf);
  };
  if (mbuf->nb_segs != 1) return discard(malformed_);
  if (addresses_.vlan && !dpdk::remove_tag(*addresses_.vlan, mbuf)) return discard(foreign_);
  const std::span<std::byte> frame(rte_pktmbuf_mtod(mbuf, std::byte*), rte_pktmbuf_data_len(mbuf));
  auto* const note = static_cast<FeedbackNote*>(rte_mbuf_to_priv(mbuf));

  if (const auto reply = dpdk::answer(addresses_.own, frame); !reply.empty()) {
    rte_pktmbuf_trim(mbuf, static_cast<std::uint16_t>(frame.size() - reply.size()));
    if (!send(mbuf)) return discard(ring_full_);
    answered_.add();
    return;
  }
  if (gateway_.learn(now, frame)) return discard(learned_);

  wire::UdpPacket packet;
  switch (wire::parse_udp_frame(frame, packet)) {
    case wire::FrameError::kOk: break;
    case wire::FrameError::kNotIpv4: return discard(foreign_);
    case wire::FrameError::kNotUdp:
      switch (dpdk::igmp_kind(frame)) {
        case Igmp::kQuery: return discard(queries_);
        case Igmp::kMalformed: return discard(malformed_);
        default: return discard(foreign_);
      }
    default: return discard(malformed_);
  }
  if (packet.destination != addresses_.own.ip || packet.destination_port != wire::kFeedbackPort) {
    return discard(foreign_);
  }
  wire::CommonHeader header;
  if (wire::parse_common(packet.payload, header) != wire::Error::kOk) return discard(malformed_);
  const std::uint64_t session = sessions_[header.session].load(std::memory_order_acquire);
  if (session == kNobody ||
      static_cast<std::uint8_t>(session >> 32) != static_cast<std::uint8_t>(header.scheme)) {
    return discard(foreign_);
  }
  note->slot = static_cast<std::uint32_t>(session);
  note->session = header.session;
  note->from = packet.source;
  note->ip_length = packet.ip_length;
  note->ce = packet.ecn == wire::Ecn::kCe;
  note->message_at = static_cast<std::uint16_t>(packet.payload.data() - frame.data());
  note->message_bytes = static_cast<std::uint16_t>(packet.payload.size());
  Batch& batch = batches_[session >> 40];
  batch.frames[batch.count++] = mbuf;
}

FeedbackStatistics FeedbackReceiver::statistics() const {
  FeedbackStatistics out;
  out.received = received_.get();
  out.handed_on = handed_on_.get();
  out.malformed = malformed_.get();
  out.foreign = foreign_.get();
  out.answered = answered_.get();
  out.learned = learned_.get();
  out.queries = queries_.get();
  out.ring_full = ring_full_.get();
  return out;
}

}  // namespace tiercast::sender
