#include "agent/lab_client.h"

#include <fmt/format.h>
#include <grpc/grpc.h>
#include <sys/eventfd.h>

#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

namespace tiercast::agent {
namespace {

constexpr Duration kAttempt = Duration::milliseconds(100);

std::chrono::nanoseconds chrono(Duration duration) {
  return std::chrono::nanoseconds(duration.ns());
}

// When its last object goes, gRPC 1.51 shuts its library down and may wait 10 s for its own poller.
// Keeping one reference for ever lets the program end quickly.
void keep_grpc() { [[maybe_unused]] static const bool kept = (grpc_init(), true); }

std::shared_ptr<grpc::Channel> make_channel(const std::string& address,
                                            const control::Access& access) {
  keep_grpc();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A lab that returns is tried at once, not after a minute. (What gRPC calls MIN is something
  // else: how long a lab may take to answer, 20 s.)
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  try {
    const auto credentials = control::lab_credentials("--lab", address, access, arguments);
    return grpc::CreateCustomChannel(address, credentials, arguments);
  } catch (const control::AddressError& error) {
    throw ConfigError(error.what());
  }
}

std::string describe(const grpc::Status& status) {
  if (status.ok()) return "it closed the stream without Stop";
  return fmt::format("{} (gRPC status {})", status.error_message(),
                     static_cast<int>(status.error_code()));
}

}  // namespace

LabClient::LabClient(const std::string& address, const v1::Hello& hello,
                     const control::Access& access, Duration patience)
    : address_(address),
      hello_(hello),
      patience_(patience),
      wakeup_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      channel_(make_channel(address, access)),
      stub_(v1::Lab::NewStub(channel_)) {
  if (wakeup_.get() < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  reader_ = std::thread([this] { read_loop(); });
}

LabClient::~LabClient() { finish(); }

std::optional<LabEvent> LabClient::poll() {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) {
    std::uint64_t rings = 0;
    [[maybe_unused]] const auto n = read(wakeup_.get(), &rings, sizeof rings);
    return std::nullopt;
  }
  LabEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void LabClient::push(LabEvent event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = write(wakeup_.get(), &one, sizeof one);
}

void LabClient::send(v1::Records records) {
  if (records.records_size() == 0) return;
  const std::lock_guard lock(mutex_);
  if (outgoing_.size() >= kMaxQueuedBatches) {
    dropped_ += static_cast<std::uint64_t>(records.records_size());
    return;
  }
  outgoing_.push_back(std::move(records));
  changed_.notify_all();
}

std::uint64_t LabClient::dropped_records() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

bool LabClient::connect(Duration patience) {
  // Counts attempts instead of measuring time: while a process is stopped or has no CPU, it does
  // not try.
  for (Duration tried = Duration::zero(); tried < patience; tried = tried + kAttempt) {
    if (channel_->WaitForConnected(std::chrono::system_clock::now() + chrono(kAttempt))) {
      return true;
    }
    const std::lock_guard lock(mutex_);
    if (finishing_) return false;
  }
  return false;
}

void LabClient::read_loop() {
  bool stopped = false;
  std::string reason =
      fmt::format("nobody answers there within {}", format_duration(kConnectTimeout));
  Duration left = kConnectTimeout;
  while (connect(left)) {
    const grpc::Status status = attend(stopped);
    if (stopped) break;
    reason = describe(status);
    std::unique_lock lock(mutex_);
    // A lab that dies leaves its streams UNAVAILABLE. One that lives may still have the stream that
    // broke, and with it the agent's name.
    const bool is_kept = status.error_code() == grpc::ALREADY_EXISTS && attached_;
    const bool may_return = status.error_code() == grpc::UNAVAILABLE || is_kept;
    if (patience_ <= Duration::zero() || !may_return || finishing_) break;
    left = is_kept ? left - kAttempt : patience_;
    if (is_kept) changed_.wait_for(lock, chrono(kAttempt), [this] { return finishing_; });
  }
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  if (!stopped) push(LabLost{fmt::format("{}: {}", address_, reason)});
}

grpc::Status LabClient::attend(bool& stopped) {
  {
    const std::lock_guard lock(mutex_);
    context_ = std::make_unique<grpc::ClientContext>();
    ended_ = false;
  }
  stream_ = stub_->Attach(context_.get());
  std::thread writer([this] { write_loop(); });
  v1::ToAgent message;
  while (stream_->Read(&message)) {
    switch (message.message_case()) {
      case v1::ToAgent::kWelcome:
        attached_ = true;
        push(LabWelcome{message.welcome()});
        break;
      case v1::ToAgent::kStart: push(LabStart{Time::nanoseconds(message.start().time_ns())}); break;
      case v1::ToAgent::kLeave: push(LabLeave{Time::nanoseconds(message.leave().time_ns())}); break;
      case v1::ToAgent::kStop:
        stopped = true;
        push(LabStop{});
        break;
      case v1::ToAgent::kMembership:
        push(LabMembership{message.membership().session(), message.membership().top_rank()});
        break;
      case v1::ToAgent::kObject: {
        LabObject object{};
        const std::string& said = message.object().sha256();
        if (said.size() != object.sha256.size()) break;  // from a later version of the protocol
        std::memcpy(object.sha256.data(), said.data(), said.size());
        push(object);
        break;
      }
      case v1::ToAgent::MESSAGE_NOT_SET: break;  // from a later version of the protocol
    }
  }
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  writer.join();
  return stream_->Finish();
}

void LabClient::write_loop() {
  v1::FromAgent message;
  *message.mutable_hello() = hello_;
  bool writable = stream_->Write(message);
  std::unique_lock lock(mutex_);
  while (writable && !ended_) {
    if (!outgoing_.empty()) {
      *message.mutable_records() = outgoing_.front();
      lock.unlock();
      writable = stream_->Write(message);
      lock.lock();
      if (writable) outgoing_.pop_front();  // else the next lab gets it
    } else if (finishing_) {
      lock.unlock();
      stream_->WritesDone();
      return;
    } else {
      changed_.wait(lock);
    }
  }
}

void LabClient::finish() {
  if (!reader_.joinable()) return;
  {
    std::unique_lock lock(mutex_);
    finishing_ = true;
    changed_.notify_all();
    if (!changed_.wait_for(lock, chrono(kFinishTimeout), [this] { return over_; })) {
      if (context_) context_->TryCancel();
    }
  }
  reader_.join();
  const std::lock_guard lock(mutex_);
  for (const v1::Records& records : outgoing_) {
    dropped_ += static_cast<std::uint64_t>(records.records_size());
  }
  outgoing_.clear();
}

}  // namespace tiercast::agent
