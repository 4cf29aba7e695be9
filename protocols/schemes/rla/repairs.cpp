#include "protocols/schemes/rla/repairs.h"

namespace tiercast::rla {

using Repair = PacketState::Repair;

void Repairs::want(std::uint32_t seq) {
  PacketState& state = board_.packet(seq);
  if (state.repair == Repair::kQueued || state.repair == Repair::kReady) return;
  take(seq);
  state.repair = Repair::kQueued;
  queued_.append(seq);
}

void Repairs::take(std::uint32_t seq) {
  PacketState& state = board_.packet(seq);
  switch (state.repair) {
    case Repair::kNone: break;
    case Repair::kQueued: queued_.remove(seq); break;
    case Repair::kReady:
      ready_.remove(seq);
      --out_;
      break;
    case Repair::kOut: --out_; break;
  }
  state.repair = Repair::kNone;
}

void Repairs::forget() {
  for (std::uint32_t seq = board_.base(); seq != board_.next(); ++seq) take(seq);
}

std::uint32_t Repairs::next() {
  const std::uint32_t seq = queued_.front();
  queued_.remove(seq);
  board_.packet(seq).repair = Repair::kOut;
  ++out_;
  return seq;
}

void Repairs::to_multicast(std::uint32_t seq) {
  PacketState& state = board_.packet(seq);
  if (state.repair != Repair::kOut) ++out_;
  state.repair = Repair::kReady;
  ready_.append(seq);
}

std::uint32_t Repairs::next_ready() {
  const std::uint32_t seq = ready_.front();
  ready_.remove(seq);
  board_.packet(seq).repair = Repair::kOut;
  return seq;
}

}  // namespace tiercast::rla
