#include "dataplane/switch/p4runtime/pipeline.h"

#include <fmt/format.h>

#include "dataplane/switch/p4runtime/translate/errors.h"

namespace tiercast::vswitch {
namespace {

using Request = p4::v1::SetForwardingPipelineConfigRequest;

// For a switch whose ports lead nowhere.
class NoOutput : public engine::Output {
 public:
  void transmit(std::uint32_t, std::span<const std::byte>, std::int64_t) override {}
  void packet_in(std::span<const std::byte>) override {}
};

NoOutput& no_output() {
  static NoOutput output;
  return output;
}

std::shared_ptr<const engine::Program> load_program(const std::string& json) {
  try {
    return engine::Program::load(json, "p4_device_config");
  } catch (const engine::LoadError& error) {
    throw RequestError(grpc::INVALID_ARGUMENT, error.what());
  }
}

std::unique_ptr<engine::Switch> made(DataPlane& data_plane,
                                     std::shared_ptr<const engine::Program> program) {
  try {
    return data_plane.make_switch(std::move(program), no_output());
  } catch (const OptionError& error) {
    throw RequestError(grpc::INVALID_ARGUMENT, error.what());
  }
}

}  // namespace

Pipelines::Pipeline::Pipeline(const p4::v1::ForwardingPipelineConfig& from)
    : config(from),
      info(from.p4info(), load_program(from.p4_device_config())),
      packet_io(std::make_shared<PacketIo>(from.p4info())) {}

Pipelines::Rehearsal::Rehearsal(const p4::v1::ForwardingPipelineConfig& config,
                                DataPlane& data_plane)
    : pipeline(std::make_unique<Pipeline>(config)),
      switch_state(made(data_plane, pipeline->info.program())) {}

void Pipelines::commit(std::unique_ptr<Pipeline> pipeline,
                       const std::vector<p4::v1::Update>& state) {
  data_plane_.call([&] {
    try {
      data_plane_.set_program(pipeline->info.program());
    } catch (const OptionError& error) {
      throw RequestError(grpc::FAILED_PRECONDITION, error.what());
    }
    replay(state, {pipeline->info, *data_plane_.pipeline(), pipeline->annotations});
    committed_ = pipeline.get();
    const std::lock_guard lock(packet_io_mutex_);
    packet_io_ = pipeline->packet_io;
  });
  live_ = std::move(pipeline);
  saved_.reset();
}

void Pipelines::set(Request::Action action, const Request& request) {
  const std::lock_guard lock(mutex_);
  if (action == Request::COMMIT) {
    if (request.has_config())
      throw RequestError(grpc::INVALID_ARGUMENT,
                         "COMMIT takes no config: it commits the saved one");
    if (!saved_) throw RequestError(grpc::NOT_FOUND, "COMMIT: no config was saved");
    const std::unique_ptr<Rehearsal> saved = std::move(saved_);  // gone, if it cannot be committed
    const std::vector<p4::v1::Update> state = snapshot(saved->target());
    saved->pipeline->annotations = {};
    return commit(std::move(saved->pipeline), state);
  }
  if (action < Request::VERIFY || action > Request::RECONCILE_AND_COMMIT)
    throw RequestError(grpc::INVALID_ARGUMENT,
                       fmt::format("action {} is unknown; valid: VERIFY, VERIFY_AND_SAVE, "
                                   "VERIFY_AND_COMMIT, COMMIT, RECONCILE_AND_COMMIT",
                                   static_cast<int>(action)));
  if (!request.has_config())
    throw RequestError(grpc::INVALID_ARGUMENT,
                       fmt::format("{}: no config", Request::Action_Name(action)));

  auto rehearsal = std::make_unique<Rehearsal>(request.config(), data_plane_);
  switch (action) {
    case Request::VERIFY_AND_SAVE: saved_ = std::move(rehearsal); break;
    case Request::VERIFY_AND_COMMIT: commit(std::move(rehearsal->pipeline), {}); break;
    case Request::RECONCILE_AND_COMMIT: {
      std::vector<p4::v1::Update> state;
      if (live_) {
        data_plane_.call(
            [&] { state = snapshot({live_->info, *data_plane_.pipeline(), live_->annotations}); });
      }
      try {
        replay(state, rehearsal->target());
      } catch (const RequestError& error) {
        throw RequestError(grpc::INVALID_ARGUMENT,
                           fmt::format("the forwarding state cannot be kept: {}", error.what()));
      }
      rehearsal->pipeline->annotations = {};
      commit(std::move(rehearsal->pipeline), state);
      break;
    }
    default: break;  // VERIFY: done above
  }
}

p4::v1::ForwardingPipelineConfig Pipelines::get() const {
  const std::lock_guard lock(mutex_);
  if (!live_)
    throw RequestError(grpc::FAILED_PRECONDITION, "no forwarding pipeline config has been set");
  return live_->config;
}

void Pipelines::with_target(const std::function<void(const Target&)>& work) {
  const std::lock_guard lock(mutex_);
  if (saved_) return work(saved_->target());
  if (!live_)
    throw RequestError(grpc::FAILED_PRECONDITION, "no forwarding pipeline config has been set");
  data_plane_.call([&] { work({live_->info, *data_plane_.pipeline(), live_->annotations}); });
}

void Pipelines::acknowledge_digest(const p4::v1::DigestListAck& ack) {
  const std::lock_guard lock(mutex_);
  if (!live_)
    throw RequestError(grpc::FAILED_PRECONDITION, "no forwarding pipeline config has been set");
  const auto& digests = live_->info.digests();
  const auto found = digests.find(ack.digest_id());
  if (found == digests.end())
    throw RequestError(grpc::INVALID_ARGUMENT,
                       fmt::format("digest_id {} is unknown", ack.digest_id()));
  data_plane_.call([&] {
    require(data_plane_.pipeline()->acknowledge_digest(found->second.name, ack.list_id()));
  });
}

std::optional<Pipelines::Committed> Pipelines::committed() const {
  if (committed_ == nullptr) return std::nullopt;
  return Committed{committed_->info, committed_->annotations};
}

std::shared_ptr<const PacketIo> Pipelines::packet_io() const {
  const std::lock_guard lock(packet_io_mutex_);
  return packet_io_;
}

}  // namespace tiercast::vswitch
