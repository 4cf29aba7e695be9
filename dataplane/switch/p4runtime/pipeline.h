// The forwarding pipeline configuration, which SetForwardingPipelineConfig verifies, saves and
// commits, and which Write and Read work on. Thread-safe. On data-plane threads, only packet_io()
// and committed() may be called.
//
// VERIFY_AND_SAVE puts the new program on a switch of its own, which carries no traffic. Writes and
// reads go to that switch until COMMIT transfers its state.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "dataplane/engine/api/switch.h"
#include "dataplane/switch/data_plane.h"
#include "dataplane/switch/p4runtime/entities/entities.h"
#include "dataplane/switch/p4runtime/packet_io.h"
#include "dataplane/switch/p4runtime/translate/program_info.h"
#include "p4/v1/p4runtime.pb.h"

namespace tiercast::vswitch {

class Pipelines {
 public:
  explicit Pipelines(DataPlane& data_plane) : data_plane_(data_plane) {}

  // Throws RequestError: INVALID_ARGUMENT (no config, one that cannot be realised, or a config with
  // COMMIT), NOT_FOUND (COMMIT without a saved config), FAILED_PRECONDITION (the data plane refuses
  // the program; a saved config is then forgotten).
  void set(p4::v1::SetForwardingPipelineConfigRequest::Action action,
           const p4::v1::SetForwardingPipelineConfigRequest& request);

  // The committed configuration. Throws RequestError FAILED_PRECONDITION if there is none.
  p4::v1::ForwardingPipelineConfig get() const;

  // Runs `work` on what Write and Read work on, on a thread that may touch it. Throws RequestError
  // FAILED_PRECONDITION if there is no pipeline, and whatever `work` throws.
  void with_target(const std::function<void(const Target&)>& work);

  // The digests of the list may then come again. Throws RequestError INVALID_ARGUMENT (no such
  // digest) or FAILED_PRECONDITION (no pipeline).
  void acknowledge_digest(const p4::v1::DigestListAck& ack);

  // That of the committed configuration; null if there is none. May be called from any thread.
  std::shared_ptr<const PacketIo> packet_io() const;

  // What the data plane's notifications refer to. Only to be used inside its handlers.
  struct Committed {
    const ProgramInfo& info;
    const Annotations& annotations;
  };
  // Empty before the first commit.
  std::optional<Committed> committed() const;

 private:
  // A configuration on which the engine and P4Info agree.
  struct Pipeline {
    explicit Pipeline(const p4::v1::ForwardingPipelineConfig& from);
    p4::v1::ForwardingPipelineConfig config;
    ProgramInfo info;
    std::shared_ptr<const PacketIo> packet_io;
    Annotations annotations;
  };
  // A pipeline on a switch whose ports lead nowhere, to try it out.
  struct Rehearsal {
    Rehearsal(const p4::v1::ForwardingPipelineConfig& config, DataPlane& data_plane);
    Target target() { return {pipeline->info, *switch_state, pipeline->annotations}; }
    std::unique_ptr<Pipeline> pipeline;
    std::unique_ptr<engine::Switch> switch_state;
  };

  void commit(std::unique_ptr<Pipeline> pipeline, const std::vector<p4::v1::Update>& state);

  DataPlane& data_plane_;
  std::unique_ptr<Pipeline> live_;
  std::unique_ptr<Rehearsal> saved_;
  Pipeline* committed_ = nullptr;  // the running one; changes only inside DataPlane::call()
  mutable std::mutex packet_io_mutex_;
  std::shared_ptr<const PacketIo> packet_io_;
  mutable std::mutex mutex_;  // guards live_ and saved_
};

}  // namespace tiercast::vswitch
