// The answer to a Read, kept until its reader takes it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "p4/v1/p4runtime.pb.h"

namespace tiercast::vswitch {

constexpr std::size_t kEntitiesAtOnce = 512;  // of one message

// Bytes that the answers under way hold together. Each may have one response besides.
class AnswerMemory {
 public:
  explicit AnswerMemory(std::size_t limit) : limit_(limit) {}
  // False if that is too much.
  bool take(std::size_t bytes);
  void give(std::size_t bytes) { taken_ -= bytes; }
  std::size_t limit() const { return limit_; }

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> taken_ = 0;
};

// Responses are kept serialized: as messages, small entities take ten times the memory.
class ReadAnswer {
 public:
  explicit ReadAnswer(AnswerMemory& memory) : memory_(memory) {}
  ~ReadAnswer();
  ReadAnswer(const ReadAnswer&) = delete;
  ReadAnswer& operator=(const ReadAnswer&) = delete;

  // Throws RequestError RESOURCE_EXHAUSTED if there is no memory.
  void add(p4::v1::Entity&& entity);
  // Ends if the reader is gone. To be called once, after the last add().
  void send(grpc::ServerWriter<p4::v1::ReadResponse>& writer);

 private:
  AnswerMemory& memory_;
  std::size_t taken_ = 0;          // of memory_
  std::vector<std::string> full_;  // serialized
  p4::v1::ReadResponse last_;      // not full yet
  std::size_t last_bytes_ = 0;
};

}  // namespace tiercast::vswitch
