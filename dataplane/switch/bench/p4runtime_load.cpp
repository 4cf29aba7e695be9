// How many table entries a P4Runtime server takes in a second.
//
//   tiercast-p4runtime-load --address 127.0.0.1:9559 --p4info P4INFO --program JSON
//
// Loads the program, then inserts --entries host routes and deletes them again, --rounds times, in
// writes of --batch updates with --calls under way at a time. Prints one JSON object: for inserts
// and deletes, the updates per second of each round. Any server that refuses an update ends it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/text_format.h>
#include <grpcpp/grpcpp.h>
#include <p4/v1/p4runtime.grpc.pb.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/text_file.h"
#include "dataplane/switch/p4runtime/translate/bytestring.h"

namespace tiercast::bench {
namespace {

struct Options {
  std::string address = "127.0.0.1:9559";
  std::string p4info;
  std::string program;
  std::string table = "ipv4_host";
  std::string action = "forward";
  std::uint64_t device_id = 1;
  unsigned entries = 8000;  // the table has room for 8192
  unsigned batch = 100;
  unsigned calls = 4;
  unsigned rounds = 5;
};

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app{"Inserts and deletes table entries over P4Runtime as fast as a server takes them."};
  app.add_option("--address", options.address, "of the server")->capture_default_str();
  app.add_option("--p4info", options.p4info, "text file")->required()->check(CLI::ExistingFile);
  app.add_option("--program", options.program, "JSON")->required()->check(CLI::ExistingFile);
  app.add_option("--table", options.table, "with one exact field of 32 bits")
      ->capture_default_str();
  app.add_option("--action", options.action, "of the entries")->capture_default_str();
  app.add_option("--device-id", options.device_id)->capture_default_str();
  app.add_option("--entries", options.entries)
      ->check(CLI::Range(1U, 1U << 20U))
      ->capture_default_str();
  app.add_option("--batch", options.batch, "updates in a write")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--calls", options.calls, "writes under way at a time")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 1000))->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return options;
}

void require(const grpc::Status& status, const std::string& what) {
  if (status.ok()) return;
  throw std::runtime_error(fmt::format("{}: {} ({})", what, status.error_message(),
                                       static_cast<int>(status.error_code())));
}

class Load {
 public:
  explicit Load(Options options) : options_(std::move(options)) {
    if (!google::protobuf::TextFormat::ParseFromString(read_text_file(options_.p4info).text,
                                                       &p4info_)) {
      throw std::runtime_error(options_.p4info + ": no P4Info in text form");
    }
    stub_ = p4::v1::P4Runtime::NewStub(
        grpc::CreateChannel(options_.address, grpc::InsecureChannelCredentials()));
    election_.set_low(1);
  }

  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  ~Load() {
    context_.TryCancel();
    if (stream_) stream_->Finish();
  }

  void connect() {
    stream_ = stub_->StreamChannel(&context_);
    p4::v1::StreamMessageRequest request;
    request.mutable_arbitration()->set_device_id(options_.device_id);
    *request.mutable_arbitration()->mutable_election_id() = election_;
    p4::v1::StreamMessageResponse answer;
    if (!stream_->Write(request) || !stream_->Read(&answer) ||
        answer.arbitration().status().code() != 0) {
      throw std::runtime_error(options_.address + ": this client did not become primary");
    }
    p4::v1::SetForwardingPipelineConfigRequest config;
    config.set_device_id(options_.device_id);
    *config.mutable_election_id() = election_;
    config.set_action(p4::v1::SetForwardingPipelineConfigRequest::VERIFY_AND_COMMIT);
    *config.mutable_config()->mutable_p4info() = p4info_;
    config.mutable_config()->set_p4_device_config(read_text_file(options_.program).text);
    grpc::ClientContext context;
    p4::v1::SetForwardingPipelineConfigResponse done;
    require(stub_->SetForwardingPipelineConfig(&context, config, &done), "the program");
  }

  std::vector<p4::v1::WriteRequest> writes(p4::v1::Update::Type type) const {
    const auto named = [](const std::string& name) {
      return [&name](const auto& one) { return one.preamble().alias() == name; };
    };
    const auto table =
        std::find_if(p4info_.tables().begin(), p4info_.tables().end(), named(options_.table));
    const auto action =
        std::find_if(p4info_.actions().begin(), p4info_.actions().end(), named(options_.action));
    if (table == p4info_.tables().end() || action == p4info_.actions().end()) {
      throw std::runtime_error(options_.p4info + ": no table " + options_.table +
                               ", or no action " + options_.action);
    }
    std::vector<p4::v1::WriteRequest> made;
    for (unsigned at = 0; at < options_.entries; ++at) {
      if (at % options_.batch == 0) {
        made.emplace_back();
        made.back().set_device_id(options_.device_id);
        *made.back().mutable_election_id() = election_;
      }
      p4::v1::Update& update = *made.back().add_updates();
      update.set_type(type);
      p4::v1::TableEntry& entry = *update.mutable_entity()->mutable_table_entry();
      entry.set_table_id(table->preamble().id());
      p4::v1::FieldMatch& match = *entry.add_match();
      match.set_field_id(table->match_fields(0).id());
      match.mutable_exact()->set_value(vswitch::encode_uint(0x0A00'0001U + at));
      if (type == p4::v1::Update::DELETE) continue;
      p4::v1::Action& taken = *entry.mutable_action()->mutable_action();
      taken.set_action_id(action->preamble().id());
      for (const auto& parameter : action->params()) {
        p4::v1::Action::Param& given = *taken.add_params();
        given.set_param_id(parameter.id());
        given.set_value(vswitch::encode_uint(1));
      }
    }
    return made;
  }

  // Updates per second.
  double carry_out(const std::vector<p4::v1::WriteRequest>& writes) {
    std::atomic<std::size_t> next{0};
    std::vector<std::string> failures(options_.calls);
    std::vector<std::thread> callers;
    const auto start = std::chrono::steady_clock::now();
    for (unsigned caller = 0; caller < options_.calls; ++caller) {
      callers.emplace_back([&, caller] {
        for (std::size_t at = next++; at < writes.size(); at = next++) {
          grpc::ClientContext context;
          p4::v1::WriteResponse response;
          const grpc::Status status = stub_->Write(&context, writes[at], &response);
          if (!status.ok()) failures[caller] = status.error_message();
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    for (const std::string& failure : failures) {
      if (!failure.empty()) throw std::runtime_error("a write failed: " + failure);
    }
    return options_.entries / took.count();
  }

  void run() {
    connect();
    const auto inserts = writes(p4::v1::Update::INSERT);
    const auto deletes = writes(p4::v1::Update::DELETE);
    std::vector<double> inserted;
    std::vector<double> deleted;
    for (unsigned round = 0; round < options_.rounds; ++round) {
      inserted.push_back(carry_out(inserts));
      deleted.push_back(carry_out(deletes));
    }
    fmt::print("{{\"inserts_per_s\": [{:.0f}], \"deletes_per_s\": [{:.0f}]}}\n",
               fmt::join(inserted, ", "), fmt::join(deleted, ", "));
  }

 private:
  Options options_;
  p4::config::v1::P4Info p4info_;
  std::unique_ptr<p4::v1::P4Runtime::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<
      grpc::ClientReaderWriter<p4::v1::StreamMessageRequest, p4::v1::StreamMessageResponse>>
      stream_;
  p4::v1::Uint128 election_;
};

}  // namespace
}  // namespace tiercast::bench

int main(int argc, char** argv) {
  try {
    tiercast::bench::Load(tiercast::bench::parse(argc, argv)).run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "tiercast-p4runtime-load: {}\n", error.what());
    return 1;
  }
  return 0;
}
