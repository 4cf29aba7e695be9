#include "dataplane/engine/tables/action_call.h"

#include <algorithm>

#include "dataplane/engine/control/byte_values.h"

namespace tiercast::engine {

Status resolve_call(const Image& image, const std::string& place,
                    const std::vector<std::uint32_t>& actions, const ActionCall& call,
                    ResolvedCall& out) {
  const auto wrong = [](const std::string& what) {
    return Status{ErrorCode::kInvalidArgument, what};
  };
  std::uint32_t index = 0;
  while (index < actions.size() && image.actions[actions[index]].name != call.name) ++index;
  if (index == actions.size()) {
    std::string valid;
    for (const std::uint32_t a : actions)
      valid += (valid.empty() ? "" : ", ") + image.actions[a].name;
    return wrong(place + " has no action `" + call.name + "`, valid: " + valid);
  }
  const Action& action = image.actions[actions[index]];
  const ActionInfo& info = image.action_infos[actions[index]];
  if (call.arguments.size() != action.parameters.size()) {
    return wrong("action " + action.name + " takes " + std::to_string(action.parameters.size()) +
                 " arguments, found " + std::to_string(call.arguments.size()));
  }
  std::vector<Cell> cells(action.argument_cells);
  ActionCall shortest{call.name, {}};
  for (std::size_t i = 0; i < action.parameters.size(); ++i) {
    const auto& p = action.parameters[i];
    const Bytes& given = call.arguments[i];
    const auto value = given.empty() ? std::nullopt : to_cells(given, p.width);
    if (!value) {
      return wrong("action " + action.name + ", parameter " + info.parameters[i].name + ": " +
                   (given.empty() ? "(empty)" : to_hex(given)) + " does not fit in " +
                   std::to_string(p.width) + " bits");
    }
    std::copy(value->begin(), value->end(), cells.begin() + p.cell);
    shortest.arguments.push_back(to_bytes(value->data(), p.width));
  }
  out = {index, std::move(cells), std::move(shortest)};
  return {};
}

}  // namespace tiercast::engine
