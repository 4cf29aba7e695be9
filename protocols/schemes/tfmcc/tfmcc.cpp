#include "protocols/schemes/tfmcc/tfmcc.h"

#include "protocols/schemes/tfmcc/lies.h"
#include "protocols/schemes/tfmcc/receiver.h"
#include "protocols/schemes/tfmcc/sender.h"

namespace tiercast::tfmcc {

namespace {

constexpr std::string_view kRecords[] = {"tfmcc.round", "tfmcc.rate", "tfmcc.clr", "tfmcc.report"};

}  // namespace

Scheme scheme() {
  return {
      .name = "tfmcc",
      .id = static_cast<std::uint8_t>(wire::SchemeId::kTfmcc),
      .layered = false,
      .feedback_source_at = 12,
      .parameters = parameter_list(),
      .records = kRecords,
      .lies = kLies,
      .make_sender = make_core<Sender, SenderCore>,
      .make_receiver = make_core<Receiver, ReceiverCore>,
  };
}

}  // namespace tiercast::tfmcc
