#include "protocols/schemes/rla/rla.h"

#include "protocols/schemes/rla/lies.h"
#include "protocols/schemes/rla/receiver.h"
#include "protocols/schemes/rla/sender.h"

namespace tiercast::rla {

namespace {

constexpr std::string_view kRecords[] = {"rla.member", "rla.signal", "rla.window"};

}  // namespace

Scheme scheme() {
  return {
      .name = "rla",
      .id = static_cast<std::uint8_t>(wire::SchemeId::kRla),
      .layered = false,
      .feedback_source_at = 12,
      .parameters = parameter_list(),
      .records = kRecords,
      .lies = kLies,
      .make_sender = make_core<Sender, SenderCore>,
      .make_receiver = make_core<Receiver, ReceiverCore>,
  };
}

}  // namespace tiercast::rla
