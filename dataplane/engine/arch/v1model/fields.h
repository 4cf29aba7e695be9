// Where v1model's metadata fields are in a program's packet vector.
#pragma once

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

// A field that the program does not have points to the scratch cell.
struct V1modelFields final : ArchitectureFields {
  Field ingress_port, egress_spec, egress_port, instance_type, packet_length;
  Field enq_timestamp, enq_qdepth, deq_timedelta, deq_qdepth;
  Field ingress_global_timestamp, egress_global_timestamp;
  Field mcast_grp, egress_rid, priority, checksum_error, parser_error;
};

}  // namespace tiercast::engine
