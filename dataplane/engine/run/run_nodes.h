// Runs the nodes of a control one by one, for packets that do not run as flat code.
#pragma once

#include "dataplane/engine/run/switch_core.h"

namespace tiercast::engine {

template <class Observer>
void SwitchCore::run_nodes(Pipeline& pipeline, std::uint32_t index, PacketState& state,
                           Observer& observer) {
  const Image& image = pipeline.image;
  Machine& machine = pipeline.machine;
  state.phv[image.tracked_cell] = 0;
  while (index != kNone) {
    const Node& node = image.nodes[index];
    switch (node.kind) {
      case Node::Kind::kCondition: {
        const bool taken = observer.branch(machine, image, index, state);
        index = taken ? node.if_true : node.if_false;
        break;
      }
      case Node::Kind::kAction:
        observer.run(machine, image, index, image.actions[node.index], state, nullptr);
        index = node.if_true;
        break;
      case Node::Kind::kTable: {
        const Table& layout = image.tables[node.index];
        MatchTable& table = *program->tables[node.index];
        const MatchTable::Entry* entry = observer.lookup(table, state);
        MatchTable::Outcome outcome = table.apply(state.phv, state.received_length);
        if (outcome.special != nullptr) machine.hits.complete(layout, table, state, outcome);
        observer.table(image, index, table, state, outcome, entry);
        if (outcome.action == kNone) {
          index = layout.next_without_action;
          break;
        }
        observer.run(machine, image, index, image.actions[layout.actions[outcome.action]], state,
                     outcome.arguments);
        index = layout.next_by_hit ? layout.next[outcome.hit ? 0 : 1] : layout.next[outcome.action];
        break;
      }
    }
    if (state.exited) return;
  }
}

}  // namespace tiercast::engine
