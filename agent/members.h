// The members of a session, from the messages of tiercast.v1.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <memory>

#include "protocols/core/members.h"
#include "tiercast/v1/session.pb.h"

namespace tiercast::agent {

// Null if there are none. ConfigError names an address that is none, or a number given twice.
std::shared_ptr<const Members> members_of(
    const google::protobuf::RepeatedPtrField<v1::Member>& members);

}  // namespace tiercast::agent
