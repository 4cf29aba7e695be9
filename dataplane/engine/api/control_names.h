// How the control API looks up the names that a caller gives.
#pragma once

#include <string>
#include <string_view>

#include "dataplane/engine/control/status.h"

namespace tiercast::engine {

// The error for an unknown name. It lists the valid names, which are those in `valid`.
template <class List>
Status unknown(const char* what, std::string_view name, const List& valid) {
  std::string names;
  for (const auto& item : valid) names += (names.empty() ? "" : ", ") + item.name;
  return {ErrorCode::kNotFound,
          std::string("no ") + what + " `" + std::string(name) +
              "` in the program; there are: " + (names.empty() ? "none" : names)};
}

// The index in `list` of the thing with this name. kNotFound if there is none.
template <class List>
Result<std::size_t> index_of(const char* what, std::string_view name, const List& list) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].name == name) return i;
  }
  return unknown(what, name, list);
}

}  // namespace tiercast::engine
