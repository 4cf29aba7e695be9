// Requests for sessions: checked, and completed with each scheme's defaults.
#pragma once

#include <string>
#include <vector>

#include "dataplane/sender/sessions/session_table.h"
#include "tiercast/v1/session.pb.h"

namespace tiercast::sender {

// The `count` sessions of one SessionSpec, whose input is read here, and is theirs together. If it
// has no seed, one is drawn and set. ConfigError names the field, its value and the choices, or is
// that of agent::FileContents.
std::vector<SessionRequest> requests_of(v1::SessionSpec& spec, const std::string& input_root = "");
// Reads a file in the JSON form of tiercast.v1.SessionList.
v1::SessionList read_sessions(const std::string& path);

}  // namespace tiercast::sender
