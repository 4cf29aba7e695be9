#include "dataplane/switch/p4runtime/read_answer.h"

#include <fmt/format.h>

#include <utility>

#include "dataplane/switch/p4runtime/translate/errors.h"

namespace tiercast::vswitch {
namespace {

constexpr std::size_t kBytesAtOnce = 1u << 20;  // of one response; gRPC clients accept 4 MiB

}  // namespace

bool AnswerMemory::take(std::size_t bytes) {
  if (taken_.fetch_add(bytes) + bytes <= limit_) return true;
  give(bytes);
  return false;
}

ReadAnswer::~ReadAnswer() { memory_.give(taken_); }

void ReadAnswer::add(p4::v1::Entity&& entity) {
  const auto entities = static_cast<std::size_t>(last_.entities_size());
  if (entities >= kEntitiesAtOnce || last_bytes_ >= kBytesAtOnce) {
    std::string packed = last_.SerializeAsString();
    if (!memory_.take(packed.size()))
      throw RequestError(grpc::RESOURCE_EXHAUSTED,
                         fmt::format("answers that wait for their readers may have {} MiB in all; "
                                     "valid: a Read of fewer entities, or after the others",
                                     memory_.limit() >> 20));
    taken_ += packed.size();
    full_.push_back(std::move(packed));
    last_.Clear();
    last_bytes_ = 0;
  }
  last_bytes_ += entity.ByteSizeLong();
  *last_.add_entities() = std::move(entity);
}

void ReadAnswer::send(grpc::ServerWriter<p4::v1::ReadResponse>& writer) {
  for (std::string& packed : full_) {
    p4::v1::ReadResponse response;
    response.ParseFromString(packed);
    if (!writer.Write(response)) return;
    memory_.give(packed.size());
    taken_ -= packed.size();
    std::string().swap(packed);
  }
  if (last_.entities_size() != 0) writer.Write(last_);
}

}  // namespace tiercast::vswitch
