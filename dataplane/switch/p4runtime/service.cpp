#include "dataplane/switch/p4runtime/service.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "dataplane/switch/clock.h"
#include "dataplane/switch/p4runtime/entities/digests.h"
#include "dataplane/switch/p4runtime/entities/transaction.h"
#include "dataplane/switch/p4runtime/translate/errors.h"
#include "proto/access.h"

namespace tiercast::vswitch {
namespace {

// For how long updates are performed before packets get their turn, so that a long batch does not
// stop the traffic. Each turn costs a wake-up of the data plane's thread and one of the caller's.
constexpr std::chrono::microseconds kUpdatesTurn{50};
// The same for reading: so many counters, registers or meters at a time.
constexpr std::uint64_t kCellsTurn = 256;
// Of the answers to Reads under way: room for the largest array of registers; as much again for
// observers.
constexpr std::size_t kAnswerBytes = 512u << 20;
constexpr std::size_t kMaxStreams = 64;  // each has two threads, whoever opened it
// Of all observers together, who may not keep controllers out: streams, and Reads at a time, behind
// which a Write waits.
constexpr std::size_t kMaxOfObservers = 16;

// One of those that observers have open, for as long as it exists.
class Place {
 public:
  // Throws RequestError RESOURCE_EXHAUSTED if observers have kMaxOfObservers; `what`: for its text.
  Place(std::atomic<std::size_t>& taken, const char* what) : taken_(taken) {
    if (taken_.fetch_add(1) < kMaxOfObservers) return;
    taken_ -= 1;
    throw RequestError(
        grpc::RESOURCE_EXHAUSTED,
        fmt::format("observers have {} {} open, which is their maximum", kMaxOfObservers, what));
  }
  ~Place() { taken_ -= 1; }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  std::atomic<std::size_t>& taken_;
};

template <class Request>
std::optional<ElectionId> election_id_of(const Request& request) {
  if (!request.has_election_id()) return std::nullopt;
  return ElectionId{request.election_id().high(), request.election_id().low()};
}

// Whether the batch must be atomic. Throws RequestError.
bool is_transaction(p4::v1::WriteRequest::Atomicity atomicity) {
  using p4::v1::WriteRequest;
  switch (atomicity) {
    case WriteRequest::CONTINUE_ON_ERROR: return false;
    case WriteRequest::ROLLBACK_ON_ERROR:
    case WriteRequest::DATAPLANE_ATOMIC: return true;
    default:
      throw RequestError(grpc::INVALID_ARGUMENT,
                         fmt::format("atomicity {} is unknown; valid: CONTINUE_ON_ERROR, "
                                     "ROLLBACK_ON_ERROR, DATAPLANE_ATOMIC",
                                     static_cast<int>(atomicity)));
  }
}

// Runs the work of a request, and turns a RequestError into its status.
template <class Work>
grpc::Status answer(const Work& work) {
  try {
    return work();
  } catch (const RequestError& error) {
    return error.status();
  }
}

const char* reason(grpc::StatusCode code) {
  return code == grpc::OK               ? "you are the primary"
         : code == grpc::ALREADY_EXISTS ? "another controller is the primary"
                                        : "there is no primary";
}

p4::v1::StreamMessageResponse arbitration_message(std::uint64_t device_id,
                                                  const ArbitrationNotice& notice) {
  p4::v1::StreamMessageResponse message;
  p4::v1::MasterArbitrationUpdate& update = *message.mutable_arbitration();
  update.set_device_id(device_id);
  if (!notice.role.empty()) update.mutable_role()->set_name(notice.role);
  if (notice.highest) {
    update.mutable_election_id()->set_high(notice.highest->high);
    update.mutable_election_id()->set_low(notice.highest->low);
  }
  update.mutable_status()->set_code(notice.code);
  update.mutable_status()->set_message(reason(notice.code));
  return message;
}

}  // namespace

P4RuntimeService::P4RuntimeService(std::uint64_t device_id, DataPlane& data_plane)
    : device_id_(device_id),
      data_plane_(data_plane),
      pipelines_(data_plane),
      answer_memory_(kAnswerBytes),
      answer_memory_of_observers_(kAnswerBytes),
      arbitration_(device_id) {
  data_plane_.set_handlers(
      {[this](std::span<const std::byte> frame) { return packet_in(frame); },
       [this](const engine::DigestList& list) { return digest(list); },
       [this](std::string_view table, std::span<const engine::TableEntry> entries) {
         entries_expired(table, entries);
       }});
}

void P4RuntimeService::load(const p4::v1::ForwardingPipelineConfig& config) {
  p4::v1::SetForwardingPipelineConfigRequest request;
  *request.mutable_config() = config;
  pipelines_.set(p4::v1::SetForwardingPipelineConfigRequest::VERIFY_AND_COMMIT, request);
}

grpc::Status P4RuntimeService::Write(grpc::ServerContext*, const p4::v1::WriteRequest* request,
                                     p4::v1::WriteResponse*) {
  return answer([&] {
    const std::lock_guard lock(state_mutex_);
    {
      const std::lock_guard streams(streams_mutex_);
      arbitration_.require_primary(request->device_id(), request->role(), election_id_of(*request));
    }
    std::vector<grpc::Status> results;
    if (is_transaction(request->atomicity())) {
      // All between two packets, so that a rollback is atomic for the data plane, too.
      pipelines_.with_target(
          [&](const Target& target) { results = write_all_or_none(target, request->updates()); });
      return batch_status(results);
    }
    int next = 0;
    do {
      pipelines_.with_target([&](const Target& target) {
        const auto end = std::chrono::steady_clock::now() + kUpdatesTurn;
        do {
          if (next == request->updates_size()) break;
          results.push_back(answer([&] {
            write_update(target, request->updates(next));
            return grpc::Status::OK;
          }));
          ++next;
        } while (std::chrono::steady_clock::now() < end);
      });
    } while (next < request->updates_size());
    return batch_status(results);
  });
}

// Reads under the lock, since a Read sees a Write whole or not at all, and sends without it, since
// a slow reader may not stop the others.
grpc::Status P4RuntimeService::Read(grpc::ServerContext* context,
                                    const p4::v1::ReadRequest* request,
                                    grpc::ServerWriter<p4::v1::ReadResponse>* writer) {
  return answer([&] {
    const bool observes = control::may_only_read(*context);
    std::optional<Place> place;
    if (observes) place.emplace(reads_of_observers_, "Reads");
    ReadAnswer read(observes ? answer_memory_of_observers_ : answer_memory_);
    std::vector<grpc::Status> results;
    {
      const std::lock_guard lock(state_mutex_);
      arbitration_.require_device(request->device_id());
      pipelines_.with_target([](const Target&) {});  // even an empty request needs a pipeline
      const auto sink = [&](p4::v1::Entity&& entity) { read.add(std::move(entity)); };
      for (const p4::v1::Entity& entity : request->entities()) {
        results.push_back(answer([&] {
          CellTurn turn{.most = kCellsTurn};
          do {
            pipelines_.with_target(
                [&](const Target& target) { read_entities(target, entity, turn, sink); });
          } while (turn.more && !context->IsCancelled());
          return grpc::Status::OK;
        }));
      }
    }
    read.send(*writer);
    return batch_status(results);
  });
}

grpc::Status P4RuntimeService::SetForwardingPipelineConfig(
    grpc::ServerContext*, const p4::v1::SetForwardingPipelineConfigRequest* request,
    p4::v1::SetForwardingPipelineConfigResponse*) {
  return answer([&] {
    const std::lock_guard lock(state_mutex_);
    {
      const std::lock_guard streams(streams_mutex_);
      arbitration_.require_primary(request->device_id(), request->role(), election_id_of(*request));
    }
    pipelines_.set(request->action(), *request);
    spdlog::info("pipeline config: {}",
                 p4::v1::SetForwardingPipelineConfigRequest::Action_Name(request->action()));
    return grpc::Status::OK;
  });
}

grpc::Status P4RuntimeService::GetForwardingPipelineConfig(
    grpc::ServerContext*, const p4::v1::GetForwardingPipelineConfigRequest* request,
    p4::v1::GetForwardingPipelineConfigResponse* response) {
  using Type = p4::v1::GetForwardingPipelineConfigRequest;
  return answer([&] {
    arbitration_.require_device(request->device_id());
    const p4::v1::ForwardingPipelineConfig config = pipelines_.get();
    p4::v1::ForwardingPipelineConfig& out = *response->mutable_config();
    if (config.has_cookie()) *out.mutable_cookie() = config.cookie();
    const auto type = request->response_type();
    if (type == Type::ALL || type == Type::P4INFO_AND_COOKIE)
      *out.mutable_p4info() = config.p4info();
    if (type == Type::ALL || type == Type::DEVICE_CONFIG_AND_COOKIE)
      out.set_p4_device_config(config.p4_device_config());
    return grpc::Status::OK;
  });
}

grpc::Status P4RuntimeService::Capabilities(grpc::ServerContext*,
                                            const p4::v1::CapabilitiesRequest* request,
                                            p4::v1::CapabilitiesResponse* response) {
  return answer([&] {
    if (request->device_id() != 0) arbitration_.require_device(request->device_id());
    response->set_p4runtime_api_version(kApiVersion);
    return grpc::Status::OK;
  });
}

grpc::Status P4RuntimeService::StreamChannel(grpc::ServerContext* context,
                                             ControllerStream::Stream* stream) {
  std::optional<Place> place;
  std::optional<ControllerStream> out;
  StreamId id = 0;
  const bool observes = control::may_only_read(*context);
  const grpc::Status room = answer([&] {
    if (observes) place.emplace(streams_of_observers_, "streams");
    return grpc::Status::OK;
  });
  if (!room.ok()) return room;
  {
    const std::lock_guard lock(streams_mutex_);
    if (streams_.size() >= kMaxStreams)
      return {grpc::RESOURCE_EXHAUSTED,
              fmt::format("{} streams are open, which is the maximum", kMaxStreams)};
    out.emplace(*stream);
    id = next_stream_++;
    streams_[id] = &*out;
  }
  const grpc::Status status = answer([&] {
    p4::v1::StreamMessageRequest request;
    while (stream->Read(&request)) {
      if (observes)
        throw RequestError(grpc::PERMISSION_DENIED,
                           "a message in the stream: a certificate of role controller is needed");
      handle(id, request, *out);
    }
    return grpc::Status::OK;
  });
  const std::lock_guard state(state_mutex_);
  const std::lock_guard lock(streams_mutex_);
  streams_.erase(id);
  notify(arbitration_.disconnect(id));
  return status;
}

void P4RuntimeService::handle(StreamId id, const p4::v1::StreamMessageRequest& request,
                              ControllerStream& out) {
  if (request.has_arbitration()) return arbitrate(id, request.arbitration());
  if (request.has_packet()) return packet_out(id, request.packet(), out);
  if (request.has_digest_ack()) return acknowledge(id, request.digest_ack(), out);
  p4::v1::StreamMessageResponse response;
  response.mutable_error()->set_canonical_code(grpc::UNIMPLEMENTED);
  response.mutable_error()->set_message("valid: arbitration, packet, digest_ack");
  response.mutable_error()->mutable_other();
  out.push(std::move(response));
}

void P4RuntimeService::arbitrate(StreamId id, const p4::v1::MasterArbitrationUpdate& update) {
  if (update.role().has_config())
    throw RequestError(grpc::INVALID_ARGUMENT,
                       "role.config is set: every role has access to the full pipeline here");
  // A Write of the previous primary must end before there is a new one.
  const std::lock_guard state(state_mutex_);
  const std::lock_guard lock(streams_mutex_);
  notify(arbitration_.update(id, update.device_id(), update.role().name(), election_id_of(update)));
}

void P4RuntimeService::notify(const std::vector<ArbitrationNotice>& notices) {
  for (const ArbitrationNotice& notice : notices) {
    const auto stream = streams_.find(notice.stream);
    if (stream != streams_.end()) stream->second->push(arbitration_message(device_id_, notice));
  }
}

void P4RuntimeService::require_primary_stream(StreamId id, const char* what) {
  const std::lock_guard lock(streams_mutex_);
  if (!arbitration_.is_primary(id))
    throw RequestError(grpc::PERMISSION_DENIED, fmt::format("{}: only the primary may send", what));
}

void P4RuntimeService::acknowledge(StreamId id, const p4::v1::DigestListAck& ack,
                                   ControllerStream& out) {
  try {
    require_primary_stream(id, "digest_ack");
    pipelines_.acknowledge_digest(ack);
  } catch (const RequestError& error) {
    p4::v1::StreamMessageResponse response;
    response.mutable_error()->set_canonical_code(error.code());
    response.mutable_error()->set_message(error.what());
    *response.mutable_error()->mutable_digest_list_ack()->mutable_digest_list_ack() = ack;
    out.push(std::move(response));
  }
}

void P4RuntimeService::packet_out(StreamId id, const p4::v1::PacketOut& packet,
                                  ControllerStream& out) {
  try {
    require_primary_stream(id, "packet_out");
    const auto codec = pipelines_.packet_io();
    if (!codec)
      throw RequestError(grpc::FAILED_PRECONDITION,
                         "packet_out: no forwarding pipeline config has been set");
    const std::string frame = codec->encode(packet);
    data_plane_.call([&] { data_plane_.packet_out(std::as_bytes(std::span(frame))); });
  } catch (const RequestError& error) {
    p4::v1::StreamMessageResponse response;
    response.mutable_error()->set_canonical_code(error.code());
    response.mutable_error()->set_message(error.what());
    *response.mutable_error()->mutable_packet_out()->mutable_packet_out() = packet;
    out.push(std::move(response));
  }
}

// Runs on the data-plane thread.
bool P4RuntimeService::packet_in(std::span<const std::byte> frame) {
  const auto codec = pipelines_.packet_io();
  if (!codec) return false;
  p4::v1::StreamMessageResponse message;
  try {
    *message.mutable_packet() = codec->decode(frame);
  } catch (const RequestError& error) {
    spdlog::warn("{}", error.what());
    return false;
  }
  return tell_primaries(message);
}

// Runs on the data-plane thread.
bool P4RuntimeService::digest(const engine::DigestList& list) {
  const auto committed = pipelines_.committed();
  if (!committed || !has_primary()) return false;
  p4::v1::StreamMessageResponse message;
  *message.mutable_digest() = digest_message(committed->info, list, realtime_ns());
  return tell_primaries(message);
}

// Runs on the data-plane thread.
void P4RuntimeService::entries_expired(std::string_view table_name,
                                       std::span<const engine::TableEntry> entries) {
  const auto committed = pipelines_.committed();
  if (!committed || !has_primary()) return;
  const ProgramInfo::Table& table = committed->info.table(table_name);
  const std::int64_t now_ns = realtime_ns();
  while (!entries.empty()) {
    p4::v1::StreamMessageResponse message;
    p4::v1::IdleTimeoutNotification& notification = *message.mutable_idle_timeout_notification();
    notification.set_timestamp(now_ns);
    const auto some = entries.first(std::min(entries.size(), kEntitiesAtOnce));
    for (const engine::TableEntry& entry : some)
      *notification.add_table_entry() = entry_message(committed->annotations, table, entry);
    entries = entries.subspan(some.size());
    tell_primaries(message);
  }
}

bool P4RuntimeService::has_primary() {
  const std::lock_guard lock(streams_mutex_);
  return !arbitration_.primaries().empty();
}

bool P4RuntimeService::tell_primaries(const p4::v1::StreamMessageResponse& message) {
  bool taken = false;
  const std::lock_guard lock(streams_mutex_);
  for (const StreamId id : arbitration_.primaries()) {
    if (streams_.at(id)->push(message)) {
      taken = true;
    } else if (dropped_messages_++ == 0) {
      spdlog::warn(
          "stream messages dropped (reported once): the controller does not read its stream");
    }
  }
  return taken;
}

}  // namespace tiercast::vswitch
