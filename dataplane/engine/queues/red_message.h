// RED's parameters in a message that has an accessor for each of them: tiercast.v1.Red, which the
// engine does not include.
#pragma once

#include "dataplane/engine/queues/port.h"

namespace tiercast::engine {

template <class Message>
RedConfig read_red(const Message& message) {
  return {.min_th = message.min_th(),
          .max_th = message.max_th(),
          .max_p = message.max_p(),
          .weight = message.weight(),
          .mean_packet_bytes = message.mean_packet_bytes(),
          .gentle = message.gentle(),
          .wait = message.wait(),
          .ecn = message.ecn(),
          .mark_above_max = message.mark_above_max()};
}

template <class Message>
void write_red(const RedConfig& red, Message& message) {
  message.set_min_th(red.min_th);
  message.set_max_th(red.max_th);
  message.set_max_p(red.max_p);
  message.set_weight(red.weight);
  message.set_mean_packet_bytes(red.mean_packet_bytes);
  message.set_gentle(red.gentle);
  message.set_wait(red.wait);
  message.set_ecn(red.ecn);
  message.set_mark_above_max(red.mark_above_max);
}

}  // namespace tiercast::engine
