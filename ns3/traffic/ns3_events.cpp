// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/traffic/ns3_events.h"

#include <ns3/simulator.h>

#include <limits>
#include <stdexcept>
#include <utility>

namespace tiercast::ns3_runtime {

// An event of ns-3's that waits in the process's queue, cancelled or not.
class Ns3Events::Pending final : public Event {
 public:
  explicit Pending(Ns3Events& of) : of_(of) {}
  void set(const ns3::Ptr<ns3::EventImpl>& what, std::uint32_t uid) {
    what_ = what;
    uid_ = uid;
  }
  void run() override {
    const ns3::Ptr<ns3::EventImpl> what = std::exchange(what_, nullptr);
    of_.last_ns_ = of_.process_.now();
    of_.last_uid_ = uid_;
    ++of_.run_;
    of_.free_.push_back(this);
    what->Invoke();
  }

 private:
  Ns3Events& of_;
  ns3::Ptr<ns3::EventImpl> what_;
  std::uint32_t uid_ = 0;
};

Ns3Events::Ns3Events(LogicalProcess& process) : process_(process) {}
Ns3Events::~Ns3Events() = default;

ns3::EventId Ns3Events::Schedule(const ns3::Time& delay, ns3::EventImpl* event) {
  const ns3::Ptr<ns3::EventImpl> what(event, false);
  if (free_.empty()) {
    free_.push_back(pending_.emplace_back(std::make_unique<Pending>(*this)).get());
  }
  Pending* const pending = free_.back();
  free_.pop_back();
  const std::uint32_t uid = next_uid_++;
  pending->set(what, uid);
  const std::int64_t at_ns = process_.now() + delay.GetNanoSeconds();
  process_.schedule(*pending, at_ns);
  return {what, static_cast<std::uint64_t>(at_ns), GetContext(), uid};
}

void Ns3Events::ScheduleWithContext(std::uint32_t, const ns3::Time& delay, ns3::EventImpl* event) {
  Schedule(delay, event);
}

ns3::EventId Ns3Events::ScheduleNow(ns3::EventImpl* event) { return Schedule(ns3::Time(0), event); }

ns3::EventId Ns3Events::ScheduleDestroy(ns3::EventImpl* event) {
  const ns3::Ptr<ns3::EventImpl> what(event, false);
  at_end_.push_back(what);
  return {what, static_cast<std::uint64_t>(process_.now()), GetContext(), ns3::EventId::DESTROY};
}

void Ns3Events::Cancel(const ns3::EventId& id) {
  if (!IsExpired(id)) id.PeekEventImpl()->Cancel();
}

bool Ns3Events::IsExpired(const ns3::EventId& id) const {
  ns3::EventImpl* const event = id.PeekEventImpl();
  if (event == nullptr || event->IsCancelled()) return true;
  if (id.GetUid() == ns3::EventId::DESTROY) return at_end_.empty();
  const auto at_ns = static_cast<std::int64_t>(id.GetTs());
  if (at_ns != process_.now()) return at_ns < process_.now();
  return last_ns_ == at_ns && id.GetUid() <= last_uid_;
}

ns3::Time Ns3Events::Now() const { return ns3::NanoSeconds(process_.now()); }

ns3::Time Ns3Events::GetDelayLeft(const ns3::EventId& id) const {
  if (IsExpired(id)) return ns3::Time(0);
  return ns3::NanoSeconds(static_cast<std::int64_t>(id.GetTs()) - process_.now());
}

ns3::Time Ns3Events::GetMaximumSimulationTime() const {
  return ns3::NanoSeconds(std::numeric_limits<std::int64_t>::max());
}

void Ns3Events::Destroy() {
  for (const auto& event : std::exchange(at_end_, {})) event->Invoke();
}

std::uint32_t Ns3Events::GetContext() const { return ns3::Simulator::NO_CONTEXT; }

void Ns3Events::Run() { throw std::logic_error("the kernel runs this simulator"); }
void Ns3Events::Stop() { throw std::logic_error("the kernel stops this simulator"); }
void Ns3Events::Stop(const ns3::Time&) { Stop(); }

}  // namespace tiercast::ns3_runtime
