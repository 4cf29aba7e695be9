#include "protocols/schemes/mdpcc/mdpcc.h"

#include "protocols/schemes/mdpcc/lies.h"
#include "protocols/schemes/mdpcc/receiver.h"
#include "protocols/schemes/mdpcc/sender.h"

namespace tiercast::mdpcc {

namespace {

constexpr std::string_view kRecords[] = {"mdpcc.rate",
                                         "mdpcc.representatives",
                                         "mdpcc.nack_received",
                                         "mdpcc.finished",
                                         "mdpcc.loss_event",
                                         "mdpcc.report",
                                         "mdpcc.report_suppressed",
                                         "mdpcc.nack",
                                         "mdpcc.nack_suppressed",
                                         "mdpcc.complete"};

}  // namespace

Scheme scheme() {
  return {
      .name = "mdpcc",
      .id = static_cast<std::uint8_t>(wire::SchemeId::kMdpcc),
      .layered = false,
      .feedback_source_at = 12,
      .parameters = parameter_list(),
      .records = kRecords,
      .lies = kLies,
      .make_sender = make_core<Sender, SenderCore>,
      .make_receiver = make_core<Receiver, ReceiverCore>,
  };
}

}  // namespace tiercast::mdpcc
