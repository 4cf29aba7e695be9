// The P4Runtime server (p4.v1.P4Runtime) of one device. gRPC calls it from its own threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "dataplane/switch/data_plane.h"
#include "dataplane/switch/p4runtime/arbitration.h"
#include "dataplane/switch/p4runtime/controller_stream.h"
#include "dataplane/switch/p4runtime/pipeline.h"
#include "dataplane/switch/p4runtime/read_answer.h"
#include "p4/v1/p4runtime.grpc.pb.h"

namespace tiercast::vswitch {

class P4RuntimeService final : public p4::v1::P4Runtime::Service {
 public:
  static constexpr const char* kApiVersion = "1.4.0";

  // Takes over data_plane's handlers. data_plane must not be running yet, and must outlive this
  // object.
  P4RuntimeService(std::uint64_t device_id, DataPlane& data_plane);

  // Does what a controller would do with VERIFY_AND_COMMIT. Throws RequestError.
  void load(const p4::v1::ForwardingPipelineConfig& config);

  grpc::Status Write(grpc::ServerContext* context, const p4::v1::WriteRequest* request,
                     p4::v1::WriteResponse* response) override;
  grpc::Status Read(grpc::ServerContext* context, const p4::v1::ReadRequest* request,
                    grpc::ServerWriter<p4::v1::ReadResponse>* writer) override;
  grpc::Status SetForwardingPipelineConfig(
      grpc::ServerContext* context, const p4::v1::SetForwardingPipelineConfigRequest* request,
      p4::v1::SetForwardingPipelineConfigResponse* response) override;
  grpc::Status GetForwardingPipelineConfig(
      grpc::ServerContext* context, const p4::v1::GetForwardingPipelineConfigRequest* request,
      p4::v1::GetForwardingPipelineConfigResponse* response) override;
  grpc::Status StreamChannel(grpc::ServerContext* context,
                             ControllerStream::Stream* stream) override;
  grpc::Status Capabilities(grpc::ServerContext* context,
                            const p4::v1::CapabilitiesRequest* request,
                            p4::v1::CapabilitiesResponse* response) override;

 private:
  void handle(StreamId id, const p4::v1::StreamMessageRequest& request, ControllerStream& out);
  void arbitrate(StreamId id, const p4::v1::MasterArbitrationUpdate& update);
  void packet_out(StreamId id, const p4::v1::PacketOut& packet, ControllerStream& out);
  void acknowledge(StreamId id, const p4::v1::DigestListAck& ack, ControllerStream& out);
  bool packet_in(std::span<const std::byte> frame);
  bool digest(const engine::DigestList& list);
  void entries_expired(std::string_view table, std::span<const engine::TableEntry> entries);
  bool has_primary();
  // Sends to the primary of every role. Returns whether one of them took the message.
  bool tell_primaries(const p4::v1::StreamMessageResponse& message);
  // Throws RequestError PERMISSION_DENIED. what: for the message.
  void require_primary_stream(StreamId id, const char* what);
  // The caller must hold streams_mutex_.
  void notify(const std::vector<ArbitrationNotice>& notices);

  const std::uint64_t device_id_;
  DataPlane& data_plane_;
  Pipelines pipelines_;
  AnswerMemory answer_memory_;
  AnswerMemory answer_memory_of_observers_;
  std::atomic<std::size_t> reads_of_observers_ = 0;  // under way
  std::atomic<std::size_t> streams_of_observers_ = 0;

  // Lock state_mutex_ first, then streams_mutex_. The data-plane thread takes only the second one,
  // and nobody waits for the data plane while holding it.
  std::mutex state_mutex_;  // allows one Write, Read or change of the pipeline or the primary at a
                            // time
  std::mutex streams_mutex_;
  Arbitration arbitration_;
  StreamId next_stream_ = 1;
  std::map<StreamId, ControllerStream*> streams_;
  std::uint64_t dropped_messages_ = 0;
};

}  // namespace tiercast::vswitch
