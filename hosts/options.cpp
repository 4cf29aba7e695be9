#include "hosts/options.h"

#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include "agent/address.h"
#include "agent/interface.h"
#include "protocols/driver/lying_receiver.h"

namespace tiercast::hosts {
namespace {

constexpr const char* kExamples = R"(Examples:
  in a lab:
    tiercast-host recv --session 1 --id 15 --name h15 --interface h15-eth0 --source 10.0.0.2 \
      --lab unix:/run/lab.sock
  alone for a minute, records to the terminal:
    tiercast-host recv --id 15 --interface eth0 --source 10.0.0.2 --duration 60s --trace -
)";

}  // namespace

std::optional<int> HostOptions::parse(const std::vector<std::string>& arguments) {
  CLI::App app("Members of a multicast session over the kernel's UDP sockets.", "tiercast-host");
  app.footer(kExamples);
  app.set_version_flag("--version", "tiercast-host " TIERCAST_VERSION);
  app.require_subcommand(1);
  CLI::App* const recv =
      app.add_subcommand("recv", "join the session's groups with IGMP and send feedback");
  recv->footer(kExamples);
  const CLI::App* const schemes =
      app.add_subcommand("schemes", "print the schemes and their parameters as JSON, and exit");
  CLI::App* const check = app.add_subcommand(
      "check",
      "exit with status 2 if the scheme refuses the session: parameters that do not fit together");
  agent.name = "receiver";
  agent.add_to(*recv);
  agent.add_to(*check);
  std::string source_text;
  recv->add_option("--interface", interface, "network interface to receive on")->required();
  recv->add_option("--source", source_text, "IPv4 address of the session's sender")->required();
  std::string lie;
  recv->add_option("--lie", lie,
                   "tell this lie, for experiments: one of those that `schemes` lists");
  recv->add_option("--output", output,
                   "write the transferred file here, with a reliable scheme (rla, mdpcc)");
  std::string digest_text;
  recv->add_option(
          "--sha256", digest_text,
          "SHA-256 of that file, as sha256sum prints it at the sender; status 1 unless what "
          "was received has it; in a lab, the sender says it")
      ->type_name("DIGEST");
  if (const auto status = agent::parse_command_line(app, arguments)) return status;
  if (schemes->parsed()) {
    command = Command::kSchemes;
    return std::nullopt;
  }

  scheme = &agent.check();
  if (check->parsed()) {
    command = Command::kCheck;
    return std::nullopt;
  }
  agent.session.lie = find_lie(*scheme, lie);
  sender = agent::parse_ipv4(source_text, "--source");
  if (agent::is_multicast(sender)) {
    throw ConfigError(
        fmt::format("--source: {} is a multicast address; give the sender's own", source_text));
  }
  if (!digest_text.empty()) {
    agent.object = agent::parse_digest(digest_text, "--sha256");
    if (output.empty()) throw ConfigError("--sha256 is of the file of --output, which is missing");
  }
  if (agent::interface_index(interface) == 0) {
    throw ConfigError(fmt::format("--interface: no interface '{}' here (there are: {})", interface,
                                  agent::interface_names()));
  }
  return std::nullopt;
}

}  // namespace tiercast::hosts
