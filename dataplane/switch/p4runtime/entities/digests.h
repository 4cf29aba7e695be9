// A list of digests as a P4Runtime message.
#pragma once

#include <cstdint>

#include "dataplane/engine/control/control.h"
#include "dataplane/switch/p4runtime/translate/program_info.h"
#include "p4/v1/p4runtime.pb.h"

namespace tiercast::vswitch {

// timestamp_ns: since the Unix epoch. Throws RequestError INTERNAL if P4Info has no such digest.
p4::v1::DigestList digest_message(const ProgramInfo& info, const engine::DigestList& list,
                                  std::int64_t timestamp_ns);

}  // namespace tiercast::vswitch
