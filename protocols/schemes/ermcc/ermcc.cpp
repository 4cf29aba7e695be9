#include "protocols/schemes/ermcc/ermcc.h"

#include "protocols/schemes/ermcc/lies.h"
#include "protocols/schemes/ermcc/receiver.h"
#include "protocols/schemes/ermcc/sender.h"

namespace tiercast::ermcc {

namespace {

constexpr std::string_view kRecords[] = {"ermcc.cut", "ermcc.cr", "ermcc.increase", "ermcc.trac"};

}  // namespace

Scheme scheme() {
  return {
      .name = "ermcc",
      .id = static_cast<std::uint8_t>(wire::SchemeId::kErmcc),
      .layered = false,
      .feedback_source_at = 12,
      .parameters = parameter_list(),
      .records = kRecords,
      .lies = kLies,
      .make_sender = make_core<Sender, SenderCore>,
      .make_receiver = make_core<Receiver, ReceiverCore>,
  };
}

}  // namespace tiercast::ermcc
