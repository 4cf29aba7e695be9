#include "protocols/schemes/sim/sim.h"

#include "protocols/schemes/sim/lies.h"
#include "protocols/schemes/sim/receiver.h"
#include "protocols/schemes/sim/sender.h"

namespace tiercast::sim {

namespace {

constexpr std::string_view kRecords[] = {"sim.round", "sim.group", "sim.menu", "sim.notification"};

}  // namespace

Scheme scheme() {
  return {
      .name = "sim",
      .id = static_cast<std::uint8_t>(wire::SchemeId::kSim),
      .layered = true,
      .aggregated = true,
      .feedback_source_at = 8,
      .parameters = parameter_list(),
      .records = kRecords,
      .lies = kLies,
      .make_sender = make_core<Sender, SenderCore>,
      .make_receiver = make_core<Receiver, ReceiverCore>,
  };
}

}  // namespace tiercast::sim
