// The whole of a small file, such as a P4 program, a list of sessions, a certificate or a key.
#pragma once

#include <string>

#include "base/config_error.h"

namespace tiercast {

struct TextFile {
  std::string path;
  std::string text;
  unsigned mode = 0;  // permissions, when it was opened

  // ConfigError: others than its owner may use it.
  void require_private() const;
};

// ConfigError: it cannot be opened or read. A pipe without a writer is waited for.
TextFile read_text_file(const std::string& path);

}  // namespace tiercast
