// ns-3's simulator as a part of a logical process: what is scheduled through ns3::Simulator becomes
// an event of the process, whose clock is also ns-3's.
// SPDX-License-Identifier: GPL-2.0-only
//
// ns-3 has one simulator in a program, so only one process can have one.
#pragma once

#include <ns3/simulator-impl.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "ns3/kernel/logical_process.h"

namespace tiercast::ns3_runtime {

class Ns3Events final : public ns3::SimulatorImpl {
 public:
  explicit Ns3Events(LogicalProcess& process);
  ~Ns3Events() override;

  ns3::EventId Schedule(const ns3::Time& delay, ns3::EventImpl* event) override;
  void ScheduleWithContext(std::uint32_t context, const ns3::Time& delay,
                           ns3::EventImpl* event) override;
  ns3::EventId ScheduleNow(ns3::EventImpl* event) override;
  ns3::EventId ScheduleDestroy(ns3::EventImpl* event) override;
  void Remove(const ns3::EventId& id) override { Cancel(id); }
  void Cancel(const ns3::EventId& id) override;
  bool IsExpired(const ns3::EventId& id) const override;
  ns3::Time Now() const override;
  ns3::Time GetDelayLeft(const ns3::EventId& id) const override;
  ns3::Time GetMaximumSimulationTime() const override;
  void Destroy() override;
  std::uint64_t GetEventCount() const override { return run_; }
  std::uint32_t GetContext() const override;
  std::uint32_t GetSystemId() const override { return 0; }
  // The kernel runs the process, and ns-3 cannot stop it.
  void Run() override;
  void Stop() override;
  void Stop(const ns3::Time& delay) override;
  bool IsFinished() const override { return false; }
  void SetScheduler(ns3::ObjectFactory) override {}

 private:
  class Pending;

  LogicalProcess& process_;
  std::uint32_t next_uid_ = ns3::EventId::VALID;
  // The event that has run last.
  std::int64_t last_ns_ = -1;
  std::uint32_t last_uid_ = 0;
  std::uint64_t run_ = 0;
  std::vector<std::unique_ptr<Pending>> pending_;
  std::vector<Pending*> free_;  // of those, the ones that have run
  std::vector<ns3::Ptr<ns3::EventImpl>> at_end_;
};

}  // namespace tiercast::ns3_runtime
