#include "protocols/schemes/pgmcc/pgmcc.h"

#include "protocols/schemes/pgmcc/lies.h"
#include "protocols/schemes/pgmcc/receiver.h"
#include "protocols/schemes/pgmcc/sender.h"

namespace tiercast::pgmcc {

namespace {

constexpr std::string_view kRecords[] = {"pgmcc.acker", "pgmcc.window"};

}  // namespace

Scheme scheme() {
  return {
      .name = "pgmcc",
      .id = static_cast<std::uint8_t>(wire::SchemeId::kPgmcc),
      .layered = false,
      .feedback_source_at = 12,
      .parameters = parameter_list(),
      .records = kRecords,
      .lies = kLies,
      .make_sender = make_core<Sender, SenderCore>,
      .make_receiver = make_core<Receiver, ReceiverCore>,
  };
}

}  // namespace tiercast::pgmcc
