#include "dataplane/dpdk/command_line.h"

#include <fmt/format.h>
#include <rte_version.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "protocols/base/units.h"

namespace tiercast::dpdk {

CommandLine::CommandLine(const std::vector<std::string>& arguments) {
  const auto separator = std::find(arguments.begin(), arguments.end(), "--");
  has_eal_arguments_ = separator != arguments.end();
  if (has_eal_arguments_) eal_arguments.assign(arguments.begin(), separator);
  own.assign(has_eal_arguments_ ? separator + 1 : arguments.begin(), arguments.end());
}

void CommandLine::require_eal_arguments(const char* example) const {
  if (has_eal_arguments_) return;
  throw ConfigError(
      fmt::format("no EAL arguments: the device goes before '--', as in '{}'", example));
}

void add_help(CLI::App& app, const char* examples) {
  app.description(fmt::format("{}\nCommand line: {} EAL-ARGUMENTS -- OPTIONS",
                              app.get_description(), app.get_name()));
  app.footer(examples);
  app.set_version_flag("--version",
                       fmt::format("{} " TIERCAST_VERSION " ({})", app.get_name(), rte_version()));
}

}  // namespace tiercast::dpdk
