// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/queue_disc_trial.h"

// Headers one by one: the modules' bring some that are not C++20.
#include <ns3/codel-queue-disc.h>
#include <ns3/fq-codel-queue-disc.h>
#include <ns3/fq-pie-queue-disc.h>
#include <ns3/ipv4-header.h>
#include <ns3/ipv4-queue-disc-item.h>
#include <ns3/mac48-address.h>
#include <ns3/object-factory.h>
#include <ns3/packet.h>
#include <ns3/queue-disc.h>
#include <ns3/rng-seed-manager.h>
#include <ns3/simulator.h>
#include <ns3/string.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "base/config_error.h"
#include "dataplane/marking/arrivals.h"

namespace tiercast::ns3_runtime {
namespace {

using marking::Fate;
using marking::PacketRecord;

constexpr std::uint16_t kIpv4 = 0x0800;
constexpr std::uint32_t kQuantum = 1514;  // bytes: a fair-queueing disc has its device's MTU

void set_quantum(ns3::QueueDisc& disc) {
  if (auto* codel = dynamic_cast<ns3::FqCoDelQueueDisc*>(&disc)) codel->SetQuantum(kQuantum);
  if (auto* pie = dynamic_cast<ns3::FqPieQueueDisc*>(&disc)) pie->SetQuantum(kQuantum);
}

ns3::Ptr<ns3::QueueDisc> make_disc(const v1::QueueDisc& spec) {
  ns3::TypeId type;
  if (!ns3::TypeId::LookupByNameFailSafe(spec.type(), &type) ||
      !type.IsChildOf(ns3::QueueDisc::GetTypeId())) {
    throw ConfigError("queue_disc: type '" + spec.type() +
                      "'; valid: a queue disc of ns-3, such as ns3::CoDelQueueDisc");
  }
  ns3::ObjectFactory factory;
  factory.SetTypeId(type);
  auto disc = factory.Create<ns3::QueueDisc>();
  for (const auto& [name, value] : spec.attributes()) {
    if (!disc->SetAttributeFailSafe(name, ns3::StringValue(value))) {
      throw ConfigError("queue_disc: " + name + " '" + value + "': " + spec.type() +
                        " has no such attribute, or refuses the value");
    }
  }
  return disc;
}

// Whether a packet was dropped because there was no room: on arrival, or from a head to make some.
bool is_full(std::string_view why) {
  return why == ns3::QueueDisc::INTERNAL_QUEUE_DROP ||
         why.ends_with(ns3::CoDelQueueDisc::OVERLIMIT_DROP);  // by itself or by its child
}

class Trial {
 public:
  Trial(const v1::MarkingTrial& spec, const std::function<void(const PacketRecord&)>& record)
      : spec_(spec), record_(record), disc_(make_disc(spec.queue_disc())) {
    rate_bps_ = spec.port().rate_bps();
    if (rate_bps_ <= 0) throw ConfigError("trial: port; valid: one with a rate");
    ns3::RngSeedManager::SetSeed(1);
    ns3::RngSeedManager::SetRun(spec.seed());
    using Item = ns3::Ptr<const ns3::QueueDiscItem>;
    disc_->TraceConnectWithoutContext(
        "DropBeforeEnqueue",
        ns3::Callback<void, Item, const char*>([this](const Item& item, const char* why) {
          of(item).fate = is_full(why) ? Fate::kQueueFull : Fate::kDroppedEarly;
        }));
    disc_->TraceConnectWithoutContext(
        "DropAfterDequeue",
        ns3::Callback<void, Item, const char*>([this](const Item& item, const char* why) {
          begin(item, is_full(why) ? Fate::kQueueFull : Fate::kDropped);
        }));
    disc_->TraceConnectWithoutContext(
        "Mark", ns3::Callback<void, Item, const char*>(
                    [this](const Item& item, const char*) { of(item).fate = Fate::kMarked; }));
    set_quantum(*disc_);
    disc_->Initialize();
  }

  void run() {
    marking::for_each_arrival(
        spec_,
        [this](std::int64_t time_ns, double rate_bps) {
          advance(time_ns);
          rate_bps_ = rate_bps;
        },
        [this](std::int64_t time_ns, std::size_t traffic_class) {
          advance(time_ns);
          arrive(traffic_class);
        });
    // Some discs have timers that never end.
    while (disc_->GetNPackets() > 0 || busy_) {
      advance(ns3::Simulator::Now().GetNanoSeconds() + 1'000'000'000);
    }
    ns3::Simulator::Destroy();
    for (const PacketRecord& one : records_) record_(one);
  }

 private:
  void advance(std::int64_t until_ns) {
    const ns3::Time left = ns3::NanoSeconds(until_ns) - ns3::Simulator::Now();
    if (!left.IsStrictlyPositive()) return;
    ns3::Simulator::Stop(left);
    ns3::Simulator::Run();
  }

  void arrive(std::size_t traffic_class) {
    const v1::TrafficClass& as = spec_.classes(static_cast<int>(traffic_class));
    PacketRecord& fresh = records_.emplace_back();
    fresh.arrival_ns = ns3::Simulator::Now().GetNanoSeconds();
    fresh.found = disc_->GetNPackets();
    fresh.traffic_class = static_cast<std::uint16_t>(traffic_class);
    fresh.fate = Fate::kLeft;
    ns3::Ipv4Header header;
    header.SetEcn(static_cast<ns3::Ipv4Header::EcnType>(as.ecn()));
    const auto packet = ns3::Create<ns3::Packet>(as.packet_bytes() - header.GetSerializedSize());
    if (records_.size() == 1) first_uid_ = packet->GetUid();
    disc_->Enqueue(ns3::Create<ns3::Ipv4QueueDiscItem>(packet, ns3::Mac48Address(), kIpv4, header));
    if (!busy_) send();
  }

  // ns-3 numbers packets as they are made, and only this makes some.
  PacketRecord& of(const ns3::Ptr<const ns3::QueueDiscItem>& item) {
    return records_[item->GetPacket()->GetUid() - first_uid_];
  }

  void begin(const ns3::Ptr<const ns3::QueueDiscItem>& item, Fate fate) {
    PacketRecord& one = of(item);
    one.wait_ns = ns3::Simulator::Now().GetNanoSeconds() - one.arrival_ns;
    one.left_behind = disc_->GetNPackets();
    if (fate != Fate::kLeft) one.fate = fate;
  }

  void send() {
    const auto item = disc_->Dequeue();
    busy_ = item != nullptr;
    if (!busy_) return;
    begin(item, Fate::kLeft);
    const double bits = 8.0 * spec_.classes(of(item).traffic_class).packet_bytes();
    ns3::Simulator::Schedule(ns3::NanoSeconds(static_cast<std::int64_t>(1e9 * bits / rate_bps_)),
                             &Trial::send, this);
  }

  const v1::MarkingTrial& spec_;
  const std::function<void(const PacketRecord&)>& record_;
  ns3::Ptr<ns3::QueueDisc> disc_;
  double rate_bps_ = 0;
  bool busy_ = false;
  std::uint64_t first_uid_ = 0;
  std::deque<PacketRecord> records_;
};

}  // namespace

void run_queue_disc(const v1::MarkingTrial& trial,
                    const std::function<void(const PacketRecord&)>& record) {
  Trial(trial, record).run();
}

}  // namespace tiercast::ns3_runtime
