#include "protocols/schemes/plm/plm.h"

#include "protocols/schemes/plm/receiver.h"
#include "protocols/schemes/plm/sender.h"

namespace tiercast::plm {

namespace {

constexpr std::string_view kRecords[] = {"plm.join", "plm.drop", "plm.loss"};

}  // namespace

Scheme scheme() {
  return {
      .name = "plm",
      .id = static_cast<std::uint8_t>(wire::SchemeId::kPlm),
      .layered = true,
      .parameters = parameter_list(),
      .records = kRecords,
      .make_sender = make_core<Sender, SenderCore>,
      .make_receiver = make_core<Receiver, ReceiverCore>,
  };
}

}  // namespace tiercast::plm
