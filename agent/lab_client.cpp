#include "agent/lab_client.h"

#include <fmt/format.h>
#include <grpc/grpc.h>
#include <sys/eventfd.h>

#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include "agent/entropy.h"

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

// Tells this program from an earlier one with the same name.
v1::Hello with_instance(v1::Hello hello) {
  std::uint64_t instance = 0;
  while (instance == 0) instance = entropy();
  hello.set_instance(instance);
  return hello;
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
      hello_(with_instance(hello)),
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
  const auto message = std::make_shared<v1::FromAgent>();
  message->mutable_records()->Swap(&records);
  const std::lock_guard lock(mutex_);
  message->mutable_records()->set_sequence(sequence_);
  sequence_ += static_cast<std::uint64_t>(message->records().records_size());
  kept_.push_back({message, message->SpaceUsedLong(), sequence_});
  kept_bytes_ += kept_.back().bytes;
  while (kept_bytes_ > kMaxKeptBytes && kept_.size() > 1) drop_oldest();
  changed_.notify_all();
}

void LabClient::admitted() {
  const std::lock_guard lock(mutex_);
  welcomed_ = true;
  changed_.notify_all();
}

void LabClient::acknowledged(std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  while (!kept_.empty() && kept_.front().end <= sequence) {
    acknowledged_ = kept_.front().end;
    forget_oldest();
  }
  changed_.notify_all();
}

void LabClient::drop_oldest() {
  dropped_ += kept_.front().records();
  forget_oldest();
}

void LabClient::forget_oldest() {
  kept_bytes_ -= kept_.front().bytes;
  kept_.pop_front();
  if (sent_ > 0) --sent_;
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
    if (gives_up()) return false;
  }
  return false;
}

bool LabClient::gives_up() const {
  return finishing_ && (closing_ || kept_.empty() || !attached_ || patience_ <= Duration::zero());
}

void LabClient::read_loop() {
  bool stopped = false;
  bool is_in_vain = false;  // the last stream ended without a Welcome
  std::string reason =
      fmt::format("nobody answers there within {}", format_duration(kConnectTimeout));
  Duration left = kConnectTimeout;
  while (connect(left)) {
    const grpc::Status status = attend(stopped);
    reason = describe(status);
    std::unique_lock lock(mutex_);
    // Who is told to stop still has its last records to send.
    if (stopped) changed_.wait(lock, [this] { return finishing_; });
    // A lab that dies leaves its streams UNAVAILABLE. One that lives may still have the stream that
    // broke, and with it the agent's name.
    const bool is_kept = status.error_code() == grpc::ALREADY_EXISTS && attached_;
    const bool may_return = status.error_code() == grpc::UNAVAILABLE || is_kept;
    if (patience_ <= Duration::zero() || !may_return || gives_up()) break;
    // Somebody else may answer while no lab is there, such as a proxy: that is no lab that
    // returned.
    const bool again = std::exchange(is_in_vain, !welcomed_) && !welcomed_;
    left = is_kept || again ? left - kAttempt : patience_;
    if (!welcomed_) changed_.wait_for(lock, chrono(kAttempt), [this] { return gives_up(); });
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
    ended_ = welcomed_ = false;
    sent_ = 0;
  }
  stream_ = stub_->Attach(context_.get());
  std::thread writer([this] { write_loop(); });
  v1::ToAgent message;
  while (stream_->Read(&message)) {
    switch (message.message_case()) {
      case v1::ToAgent::kWelcome:
        attached_ = true;
        push(LabWelcome{message.welcome()});
        admitted();
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
      case v1::ToAgent::kAcknowledge: acknowledged(message.acknowledge().sequence()); break;
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
  v1::FromAgent first;
  *first.mutable_hello() = hello_;
  std::unique_lock lock(mutex_);
  first.mutable_hello()->set_acknowledged(acknowledged_);
  lock.unlock();
  bool writable = stream_->Write(first);
  lock.lock();
  while (writable && !ended_) {
    if (welcomed_ && sent_ < kept_.size()) {
      const std::shared_ptr<const v1::FromAgent> message = kept_[sent_].message;
      ++sent_;  // first: meanwhile it may be dropped, and others move up
      lock.unlock();
      writable = stream_->Write(*message);
      lock.lock();
    } else if (finishing_ && (kept_.empty() || closing_)) {
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
    changed_.wait_for(lock, chrono(kFinishTimeout), [this] { return over_ || kept_.empty(); });
    closing_ = true;
    changed_.notify_all();
    if (!changed_.wait_for(lock, chrono(kFinishTimeout), [this] { return over_; })) {
      if (context_) context_->TryCancel();
    }
  }
  reader_.join();
  const std::lock_guard lock(mutex_);
  while (!kept_.empty()) drop_oldest();
}

}  // namespace tiercast::agent
