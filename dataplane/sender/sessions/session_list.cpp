#include "dataplane/sender/sessions/session_list.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <memory>

#include "agent/entropy.h"
#include "agent/file.h"
#include "agent/members.h"
#include "agent/seal.h"
#include "base/text_file.h"
#include "protocols/core/session_config.h"
#include "protocols/wire/wire.h"

namespace tiercast::sender {

std::vector<SessionRequest> requests_of(v1::SessionSpec& spec, const std::string& input_root) {
  const std::uint32_t count = spec.count() == 0 ? 1 : spec.count();
  check_range("session", spec.session(), 0, wire::kMaxSession);
  check_range("count", count, 1, wire::kMaxSession + 1 - spec.session());
  SessionRequest request;
  request.scheme = spec.scheme().empty() ? "sim" : spec.scheme();
  const Scheme& scheme = find_scheme(request.scheme);
  SessionConfig& config = request.config;
  config.session = static_cast<std::uint16_t>(spec.session());
  if (spec.layers() != 0) config.layers = spec.layers();
  check_range("layers", config.layers, 1, scheme.layered ? kMaxLayers : 1);
  if (spec.packet_size() != 0) config.packet_size = spec.packet_size();
  check_range("packet_size", config.packet_size, kMinPacketSize, kMaxPacketSize);
  config.self_id = spec.id();
  if (!spec.has_seed()) spec.set_seed(agent::entropy());
  config.seed = spec.seed();
  config.parameters = Parameters(scheme.parameters);
  for (const auto& [name, value] : spec.parameters()) config.parameters.set(name + "=" + value);
  const int top = static_cast<int>(config.layers) - 1;
  request.top_rank = spec.has_top_rank() ? spec.top_rank() : top;
  check_range("top_rank", request.top_rank, -1, top);
  config.members = agent::members_of(spec.members());
  request.keys = agent::keys_of(spec.keys());
  if (!spec.input().empty()) {
    request.input = std::make_shared<agent::FileContents>(spec.input(), input_root);
  }
  request.port = spec.port();
  std::vector<SessionRequest> requests(count, request);
  for (std::uint32_t i = 1; i < count; ++i) {
    requests[i].config.session = static_cast<std::uint16_t>(config.session + i);
    requests[i].config.seed = config.seed + i;
  }
  return requests;
}

v1::SessionList read_sessions(const std::string& path) {
  const TextFile file = read_text_file(path);
  v1::SessionList list;
  const auto status = google::protobuf::util::JsonStringToMessage(file.text, &list);
  if (!status.ok()) {
    throw ConfigError(fmt::format(
        R"({}: {}; a session list is {{"sessions": [{{"session": 1, "scheme": "sim"}}]}})", path,
        status.message().ToString()));
  }
  if (list.sessions().empty()) throw ConfigError(fmt::format("{}: no sessions in it", path));
  const auto has_keys = [](const v1::SessionSpec& spec) { return spec.has_keys(); };
  if (std::any_of(list.sessions().begin(), list.sessions().end(), has_keys)) file.require_private();
  return list;
}

}  // namespace tiercast::sender
