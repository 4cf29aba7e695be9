// Updates that all happen, or none (P4Runtime specification, "Batch Atomicity"). Runs where
// write_update() may.
#pragma once

#include <grpcpp/support/status.h>

#include <vector>

#include "dataplane/switch/p4runtime/entities.h"
#include "p4/v1/p4runtime.pb.h"

namespace tiercast::vswitch {

// The updates that give back what an update is about to change, as it is now. What an entry's idle
// time was is not given back.
std::vector<p4::v1::Update> inverse(const Target& target, const p4::v1::Update& update);

// A status per update. If one fails, what was done before it is undone, and every other update has
// status ABORTED.
std::vector<grpc::Status> write_all_or_none(
    const Target& target, const google::protobuf::RepeatedPtrField<p4::v1::Update>& updates);

}  // namespace tiercast::vswitch
