// A trial of `tiercast marking` (dataplane/marking) through a queue disc of ns-3: the same packets,
// a link of the same rate. SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <functional>

#include "dataplane/marking/record.h"
#include "tiercast/v1/marking.pb.h"

namespace tiercast::ns3_runtime {

// Calls `record` for each packet, in the order of arrival. Throws ConfigError for a trial
// that is not valid, and for a type or an attribute that ns-3 does not have.
void run_queue_disc(const v1::MarkingTrial& trial,
                    const std::function<void(const marking::PacketRecord&)>& record);

}  // namespace tiercast::ns3_runtime
