// tiercast.v1.Switch: link parameters and port statistics, at the same address as P4Runtime.
#pragma once

#include "dataplane/switch/data_plane.h"
#include "tiercast/v1/lab.grpc.pb.h"

namespace tiercast::vswitch {

class LabService final : public tiercast::v1::Switch::Service {
 public:
  explicit LabService(DataPlane& data_plane) : data_plane_(data_plane) {}

  grpc::Status SetLink(grpc::ServerContext* context, const tiercast::v1::SetLinkRequest* request,
                       tiercast::v1::SetLinkResponse* response) override;
  grpc::Status GetPorts(grpc::ServerContext* context, const tiercast::v1::GetPortsRequest* request,
                        tiercast::v1::GetPortsResponse* response) override;

  grpc::Status SetTrace(grpc::ServerContext* context, const tiercast::v1::SetTraceRequest* request,
                        tiercast::v1::SetTraceResponse* response) override;
  grpc::Status TakeTrace(grpc::ServerContext* context,
                         const tiercast::v1::TakeTraceRequest* request,
                         tiercast::v1::TakeTraceResponse* response) override;

 private:
  DataPlane& data_plane_;
};

}  // namespace tiercast::vswitch
