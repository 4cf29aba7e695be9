#include "protocols/schemes/plm/plm.h"

#include "protocols/schemes/plm/receiver.h"
#include "protocols/schemes/plm/sender.h"

namespace tiercast::plm {

Scheme scheme() {
  return {
      .name = "plm",
      .id = static_cast<std::uint8_t>(wire::SchemeId::kPlm),
      .layered = true,
      .parameters = parameter_list(),
      .make_sender = [](const SessionConfig& config) -> std::unique_ptr<SenderCore> {
        return std::make_unique<Sender>(config);
      },
      .make_receiver = [](const SessionConfig& config) -> std::unique_ptr<ReceiverCore> {
        return std::make_unique<Receiver>(config);
      },
  };
}

}  // namespace tiercast::plm
