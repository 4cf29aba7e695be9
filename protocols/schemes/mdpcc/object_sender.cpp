#include "protocols/schemes/mdpcc/object_sender.h"

#include <algorithm>
#include <string>
#include <utility>

namespace tiercast::mdpcc {
namespace {

std::uint32_t count_segments(std::size_t bytes, std::uint32_t segment_size, unsigned max_segments) {
  const std::size_t segments = (bytes + segment_size - 1) / segment_size;
  if (segments > max_segments) {
    throw ConfigError("object of " + std::to_string(bytes) + " bytes: " + std::to_string(segments) +
                      " segments of " + std::to_string(segment_size) +
                      " are more than mdpcc.max_segments = " + std::to_string(max_segments));
  }
  return static_cast<std::uint32_t>(segments);
}

}  // namespace

ObjectSender::ObjectSender(std::span<const std::byte> object, std::uint32_t segment_size,
                           unsigned max_segments)
    : object_(object),
      segment_size_(segment_size),
      segment_count_(count_segments(object.size(), segment_size, max_segments)),
      requested_(segment_count_),
      repaired_(segment_count_),
      repaired_before_(segment_count_) {}

std::span<const std::byte> ObjectSender::segment(std::uint32_t number) const {
  const std::size_t offset = std::size_t{number} * segment_size_;
  return object_.subspan(offset, std::min<std::size_t>(segment_size_, object_.size() - offset));
}

std::optional<std::uint32_t> ObjectSender::take(Time now) {
  if (requested_.size() > 0) {
    std::uint32_t segment = requested_.next(cursor_, segment_count_);
    if (segment == segment_count_) segment = requested_.next(0, segment_count_);
    cursor_ = segment + 1;
    requested_.erase(segment);
    repaired_.insert(segment);
    quiet_since_ = now;
    return segment;
  }
  if (next_new_ == segment_count_) return std::nullopt;
  quiet_since_ = now;
  return next_new_++;
}

std::uint32_t ObjectSender::request(Time now, const wire::MdpccNack& nack) {
  if (endless()) return 0;
  quiet_since_ = now;
  std::uint32_t added = 0;
  for (std::size_t i = 0; i < nack.record_count; ++i) {
    // No segment is in two of these sets.
    if (requested_.size() + repaired_.size() + repaired_before_.size() == next_new_) break;
    added += requested_.insert(nack.segments[i].first, nack.segments[i].end(next_new_),
                               {&repaired_, &repaired_before_});
  }
  return added;
}

void ObjectSender::begin_epoch() {
  std::swap(repaired_, repaired_before_);
  repaired_.clear();
}

}  // namespace tiercast::mdpcc
