#include "protocols/schemes/rlc/rlc.h"

#include "protocols/schemes/rlc/receiver.h"
#include "protocols/schemes/rlc/sender.h"

namespace tiercast::rlc {

namespace {

constexpr std::string_view kRecords[] = {"rlc.join", "rlc.leave"};

}  // namespace

Scheme scheme() {
  return {
      .name = "rlc",
      .id = static_cast<std::uint8_t>(wire::SchemeId::kRlc),
      .layered = true,
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

}  // namespace tiercast::rlc
