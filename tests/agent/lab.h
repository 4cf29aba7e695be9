// A lab for tests: the service of tiercast.v1 on a Unix socket. Its script is a function that
// handles one stream.
#pragma once

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "agent/clock.h"
#include "tiercast/v1/lab.grpc.pb.h"

namespace tiercast::agent {

class TestLab : private v1::Lab::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::ToAgent, v1::FromAgent>;
  using Script = std::function<grpc::Status(Stream&)>;

  explicit TestLab(Script script)
      : script_(std::move(script)),
        address_("unix:" + directory() + "/lab-" + std::to_string(getpid()) + ".sock") {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~TestLab() override { server_->Shutdown(); }

  const std::string& address() const { return address_; }

  // Returns when the script has ended. What it wrote may be read then.
  void wait() { const std::lock_guard lock(running_); }

  // The next message, as a lab takes it that has written records once it has read them.
  static bool read(Stream& stream, v1::FromAgent& message) {
    if (!stream.Read(&message)) return false;
    if (!message.has_records()) return true;
    const v1::Records& records = message.records();
    stream.Write(
        acknowledge(records.sequence() + static_cast<std::uint64_t>(records.records_size())));
    return true;
  }

  static v1::ToAgent acknowledge(std::uint64_t sequence) {
    v1::ToAgent message;
    message.mutable_acknowledge()->set_sequence(sequence);
    return message;
  }
  static v1::ToAgent welcome() {
    v1::ToAgent message;
    message.mutable_welcome()->set_epoch_ns(1);
    return message;
  }
  static v1::ToAgent start(Duration ago = Duration::zero()) {
    v1::ToAgent message;
    message.mutable_start()->set_time_ns((monotonic_now() - ago).ns());
    return message;
  }
  static v1::ToAgent leave() {
    v1::ToAgent message;
    message.mutable_leave()->set_time_ns(monotonic_now().ns());
    return message;
  }
  static v1::ToAgent stop() {
    v1::ToAgent message;
    message.mutable_stop();
    return message;
  }
  static v1::ToAgent membership(std::uint32_t session, int top_rank) {
    v1::ToAgent message;
    message.mutable_membership()->set_session(session);
    message.mutable_membership()->set_top_rank(top_rank);
    return message;
  }

 private:
  static std::string directory() {
    const char* const given = getenv("TMPDIR");
    return given != nullptr ? given : "/tmp";
  }
  grpc::Status Attach(grpc::ServerContext*, Stream* stream) override {
    const std::lock_guard lock(running_);
    return script_(*stream);
  }

  Script script_;
  std::mutex running_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tiercast::agent
