#include "agent/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "agent/entropy.h"
#include "agent/seal.h"
#include "protocols/core/session_config.h"
#include "protocols/wire/wire.h"

namespace tiercast::agent {

Duration parse_time(const std::string& text, const char* option) {
  try {
    return parse_duration(text);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", option, error.what()));
  }
}

void AgentOptions::add_to(CLI::App& app) {
  app.add_option("--scheme", scheme, "congestion control scheme")->capture_default_str();
  app.add_option("--session", session.session, "session number; gives the groups' addresses")
      ->check(CLI::Range(0, static_cast<int>(wire::kMaxSession)))
      ->capture_default_str();
  app.add_option("--layers", session.layers, "layers of the session")
      ->check(CLI::Range(1u, kMaxLayers))
      ->capture_default_str();
  app.add_option("--packet-size", session.packet_size, "IP bytes of a data packet")
      ->check(CLI::Range(kMinPacketSize, kMaxPacketSize))
      ->capture_default_str();
  app.add_option("--id", session.self_id, "number of this agent in feedback")
      ->capture_default_str();
  app.add_option("--seed", seed,
                 "seed of this agent's random numbers, for a run that can be repeated; by default "
                 "another one each time");
  app.add_option("--set", assignments, "a scheme's parameter, such as sim.delta=0.875; repeatable")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  app.add_option("--name", name, "this agent's name in the run")->capture_default_str();
  app.add_option("--lab", lab, "the lab to attach to: unix:/path or host:port; none: stand-alone");
  app.add_option(
         "--lab-patience", lab_patience_text,
         "go on without a lab that has died, and attach to the one that returns within this "
         "time, such as 60s")
      ->type_name("TIME");
  app.add_option("--tls", access.tls, control::kTlsHelp)
      ->check(CLI::ExistingDirectory)
      ->type_name("FOLDER");
  app.add_flag("--insecure", access.insecure, control::kInsecureHelp);
  app.add_option("--keys", keys_file,
                 "without a lab: seal messages with the keys of this file (`tiercast sessions "
                 "keys`), which nobody else may use, and refuse others' without a seal")
      ->type_name("FILE");
  app.add_option("--trace", trace,
                 "write records as JSON lines to this file; - is standard output");
  app.add_option(
         "--realtime", realtime,
         "real-time priority, where permitted, so that a busy machine does not delay it; 0: none")
      ->check(CLI::Range(0, 99))
      ->capture_default_str();
  app.add_option("--duration", duration_text, "end after this time, such as 90s")
      ->type_name("TIME");
}

const Scheme& AgentOptions::check() {
  const Scheme* found = nullptr;
  try {
    found = &find_scheme(scheme);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("--scheme: {}", error.what()));
  }
  if (!found->layered && session.layers != 1) {
    throw ConfigError(fmt::format("--layers: {} has one rate for all receivers; valid: 1, not {}",
                                  found->name, session.layers));
  }
  // A sender that is started again must not go on at its old packet numbers, and receivers that
  // wait for a random time before they report must not wait equally long.
  session.seed = seed ? *seed : entropy();
  session.parameters = Parameters(found->parameters);
  for (const std::string& assignment : assignments) {
    try {
      session.parameters.set(assignment);
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("--set: {}", error.what()));
    }
  }
  if (!keys_file.empty()) {
    if (!lab.empty())
      throw ConfigError("--keys: a lab hands out keys itself; leave out --keys or --lab");
    try {
      keys = read_keys(keys_file);
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("--keys: {}", error.what()));
    }
  }
  if (!duration_text.empty()) duration = parse_time(duration_text, "--duration");
  if (!lab_patience_text.empty()) lab_patience = parse_time(lab_patience_text, "--lab-patience");
  return *found;
}

std::optional<int> parse_command_line(CLI::App& app, std::vector<std::string> arguments) {
  try {
    std::reverse(arguments.begin(), arguments.end());  // in the order that CLI11 expects
    app.parse(std::move(arguments));
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "{}: {}\n{} --help shows the options.\n", app.get_name(), error.what(),
               app.get_name());
    return 2;
  }
}

}  // namespace tiercast::agent
