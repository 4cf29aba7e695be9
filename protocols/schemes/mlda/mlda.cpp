#include "protocols/schemes/mlda/mlda.h"

#include "protocols/schemes/mlda/lies.h"
#include "protocols/schemes/mlda/receiver.h"
#include "protocols/schemes/mlda/sender.h"

namespace tiercast::mlda {

namespace {

constexpr std::string_view kRecords[] = {"mlda.layers", "mlda.cut", "mlda.estimate", "mlda.report"};

}  // namespace

Scheme scheme() {
  return {
      .name = "mlda",
      .id = static_cast<std::uint8_t>(wire::SchemeId::kMlda),
      .layered = true,
      .feedback_source_at = 12,
      .parameters = parameter_list(),
      .records = kRecords,
      .lies = kLies,
      .make_sender = make_core<Sender, SenderCore>,
      .make_receiver = make_core<Receiver, ReceiverCore>,
  };
}

}  // namespace tiercast::mlda
