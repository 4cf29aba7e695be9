// Updates of which all happen or none (P4Runtime specification, "Batch Atomicity"). May run
// wherever write_update() may.
#pragma once

#include <grpcpp/support/status.h>

#include <vector>

#include "dataplane/switch/p4runtime/entities/entities.h"
#include "p4/v1/p4runtime.pb.h"

namespace tiercast::vswitch {

// The updates that restore the present state of what an update is about to change. They do not
// restore how long an entry has been idle.
std::vector<p4::v1::Update> inverse(const Target& target, const p4::v1::Update& update);

// Returns one status per update. If one fails, those before it are undone, and all other updates
// have status ABORTED.
std::vector<grpc::Status> write_all_or_none(
    const Target& target, const google::protobuf::RepeatedPtrField<p4::v1::Update>& updates);

}  // namespace tiercast::vswitch
