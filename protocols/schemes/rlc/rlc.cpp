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
      .make_sender = make_core<Sender, SenderCore>,
      .make_receiver = make_core<Receiver, ReceiverCore>,
  };
}

}  // namespace tiercast::rlc
