// A receiver that lies, the same way in every runtime: an honest core, and around it a layer that
// changes what the core hears, what it says, or what it subscribes to. For experiments: what a lie
// brings its teller, and what it costs others (docs/security.md, "Members that lie").
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "protocols/core/core.h"
#include "protocols/core/registry.h"

namespace tiercast {

// Every lie that a member can tell: those of the scheme's messages, and
//   always_congested       its core hears of every packet as marked, and of each tenth not at all
//   inflated_subscription  it subscribes to all layers all the time, whatever its core wants; only
//                          of layered schemes
std::vector<const Lie*> lies_of(const Scheme& scheme);

// The one of that name; null if the name is empty. ConfigError: it is not among lies_of().
const Lie* find_lie(const Scheme& scheme, std::string_view name);

// The scheme's receiver, or one that tells config.lie, which is the scheme's. ConfigError: as the
// scheme's.
std::unique_ptr<ReceiverCore> make_receiver(const Scheme& scheme, const SessionConfig& config);

}  // namespace tiercast
