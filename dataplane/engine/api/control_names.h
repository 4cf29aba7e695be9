// How the control API finds what a caller names.
#pragma once

#include <string>
#include <string_view>

#include "dataplane/engine/control/status.h"

namespace tiercast::engine {

// list: of things with a name; the message lists them.
template <class List>
Status unknown(const char* what, std::string_view name, const List& valid) {
  std::string names;
  for (const auto& item : valid) names += (names.empty() ? "" : ", ") + item.name;
  return {ErrorCode::kNotFound,
          std::string("no ") + what + " `" + std::string(name) +
              "` in the program; there are: " + (names.empty() ? "none" : names)};
}

// The place of the thing with this name in `list`.
template <class List>
Result<std::size_t> index_of(const char* what, std::string_view name, const List& list) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].name == name) return i;
  }
  return unknown(what, name, list);
}

}  // namespace tiercast::engine
