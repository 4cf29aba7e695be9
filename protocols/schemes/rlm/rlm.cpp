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
      .make_sender = [](const SessionConfig& config) -> std::unique_ptr<SenderCore> {
        return std::make_unique<Sender>(config);
      },
      .make_receiver = [](const SessionConfig& config) -> std::unique_ptr<ReceiverCore> {
        return std::make_unique<Receiver>(config);
      },
  };
}

}  // namespace tiercast::rlm
