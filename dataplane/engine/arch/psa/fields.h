// Where PSA's metadata fields are in a program's packet vector.
#pragma once

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

// Both images of a program have them in the same cells. A field that the program does not have
// points to the scratch cell.
struct PsaFields final : ArchitectureFields {
  struct {
    Field ingress_port, packet_path;
  } ingress_parser;
  struct {
    Field ingress_port, packet_path, ingress_timestamp, parser_error;
  } ingress;
  struct {
    Field class_of_service, clone, clone_session_id, drop, resubmit, multicast_group, egress_port;
  } ingress_output;
  struct {
    Field egress_port, packet_path;
  } egress_parser;
  struct {
    Field class_of_service, egress_port, packet_path, instance, egress_timestamp, parser_error;
  } egress;
  struct {
    Field clone, clone_session_id, drop;
  } egress_output;
  struct {
    Field egress_port;
  } egress_deparser;
};

}  // namespace tiercast::engine
