#include "protocols/schemes/rlm/rlm.h"

#include "protocols/schemes/rlm/receiver.h"
#include "protocols/schemes/rlm/sender.h"

namespace tiercast::rlm {

namespace {

constexpr std::string_view kRecords[] = {"rlm.announcement", "rlm.state", "rlm.join",
                                         "rlm.failure"};

}  // namespace

Scheme scheme() {
  return {
      .name = "rlm",
      .id = static_cast<std::uint8_t>(wire::SchemeId::kRlm),
      .layered = true,
      .feedback_source_at = 12,
      .parameters = parameter_list(),
      .records = kRecords,
      .make_sender = make_core<Sender, SenderCore>,
      .make_receiver = make_core<Receiver, ReceiverCore>,
  };
}

}  // namespace tiercast::rlm
