#include "dataplane/engine/run/digest_list.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <string_view>
#include <utility>

namespace tiercast::engine {

namespace {

constexpr std::size_t whole_bytes(unsigned bits) { return (bits + 7) / 8; }

std::size_t digest_bytes(std::span<const unsigned> widths) {
  std::size_t bytes = 0;
  for (const unsigned width : widths) bytes += whole_bytes(width);
  return bytes;
}

}  // namespace

DigestData DigestList::at(std::size_t index) const {
  const char* next = reinterpret_cast<const char*>(bytes.data()) + index * digest_bytes(widths);
  DigestData fields;
  for (const unsigned width : widths) {
    const std::string_view value(next, whole_bytes(width));
    fields.emplace_back(value.substr(std::min(value.find_first_not_of('\0'), value.size() - 1)));
    next += value.size();
  }
  return fields;
}

DigestGatherer::DigestGatherer(std::vector<unsigned> widths)
    : widths_(std::move(widths)), row_bytes_(digest_bytes(widths_)), draft_(row_bytes_) {}

void DigestGatherer::allocate() {
  const auto fitting = static_cast<std::uint32_t>(
      std::min<std::size_t>(kMaxKept, kMaxBytes / std::max<std::size_t>(row_bytes_, 1)));
  const std::uint32_t count = std::max(kMinKept, fitting);
  bytes_.resize(count * row_bytes_);
  rows_.resize(count);
  buckets_.resize(std::bit_ceil(count));
  sent_.resize(count);
  list_bytes_.resize(std::min(count, kMaxList) * row_bytes_);
}

void DigestGatherer::clear() {
  gathered_ = {};
  oldest_ = sent_count_ = 0;
  std::fill(buckets_.begin(), buckets_.end(), kNoRow);
  free_ = kNoRow;
  for (std::uint32_t row = 0; row < rows_.size(); ++row) {
    rows_[row] = {kNoRow, free_};
    free_ = row;
  }
}

void DigestGatherer::configure(std::optional<DigestConfig> config) {
  if (config && rows_.empty()) allocate();
  if (!config || !config_) clear();
  config_ = config;
  if (config_ && config_->ack_timeout_ns == 0) forget(kNever);
}

std::uint32_t DigestGatherer::list_limit() const {
  const auto most = std::min(kMaxList, static_cast<std::uint32_t>(rows_.size()));
  return config_->max_list_size == 0 ? most : std::min(most, config_->max_list_size);
}

std::span<std::byte> DigestGatherer::bytes_of(std::uint32_t row) {
  return {bytes_.data() + row * row_bytes_, row_bytes_};
}

std::uint32_t& DigestGatherer::bucket_of(std::span<const std::byte> digest) {
  const std::string_view text(reinterpret_cast<const char*>(digest.data()), digest.size());
  return buckets_[std::hash<std::string_view>()(text) & (buckets_.size() - 1)];
}

bool DigestGatherer::is_known(std::span<const std::byte> digest) {
  for (std::uint32_t row = bucket_of(digest); row != kNoRow; row = rows_[row].same_hash) {
    if (std::ranges::equal(bytes_of(row), digest)) return true;
  }
  return false;
}

void DigestGatherer::release(List& list) {
  for (std::uint32_t row = list.first; row != kNoRow;) {
    std::uint32_t* link = &bucket_of(bytes_of(row));
    while (*link != row) link = &rows_[*link].same_hash;
    *link = rows_[row].same_hash;
    const std::uint32_t next = std::exchange(rows_[row].next, free_);
    free_ = row;
    row = next;
  }
  list.first = list.last = kNoRow;
  list.size = 0;
}

void DigestGatherer::pop_acknowledged() {
  while (sent_count_ > 0 && sent_[oldest_].size == 0) {
    oldest_ = (oldest_ + 1) % sent_.size();
    --sent_count_;
  }
}

void DigestGatherer::forget(std::int64_t now_ns) {
  while (sent_count_ > 0 && now_ns - sent_[oldest_].time_ns >= config_->ack_timeout_ns) {
    release(sent_[oldest_]);
    pop_acknowledged();
  }
}

void DigestGatherer::add(std::int64_t now_ns) {
  if (!config_) return;
  forget(now_ns);
  if (is_known(draft_)) return;
  if (free_ == kNoRow) {
    ++dropped_;
    return;
  }
  const std::uint32_t row = free_;
  free_ = rows_[row].next;
  std::ranges::copy(draft_, bytes_of(row).begin());
  rows_[row] = {std::exchange(bucket_of(draft_), row), kNoRow};
  if (gathered_.size++ == 0) {
    first_ns_ = now_ns;
    gathered_.first = row;
  } else {
    rows_[gathered_.last].next = row;
  }
  gathered_.last = row;
}

void DigestGatherer::acknowledge(std::uint64_t list_id) {
  // Ids ascend, starting from the oldest list.
  const auto place = [&](std::size_t i) -> List& { return sent_[(oldest_ + i) % sent_.size()]; };
  std::size_t first = 0, last = sent_count_;
  while (first < last) {
    const std::size_t middle = first + (last - first) / 2;
    if (place(middle).id < list_id) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  if (first == sent_count_ || place(first).id != list_id) return;
  release(place(first));
  pop_acknowledged();
}

std::int64_t DigestGatherer::due_ns() const {
  if (gathered_.size == 0) return kNever;
  if (gathered_.size >= list_limit()) return first_ns_;
  return first_ns_ > kNever - 1 - config_->max_timeout_ns ? kNever - 1
                                                          : first_ns_ + config_->max_timeout_ns;
}

DigestList DigestGatherer::next_list(std::int64_t now_ns) {
  // There can be more digests than one list holds only after a change to shorter lists. The excess
  // waits.
  const std::uint32_t size = std::min(gathered_.size, list_limit());
  std::uint32_t row = gathered_.first;
  for (std::uint32_t i = 0; i < size; ++i, row = rows_[row].next) {
    std::ranges::copy(bytes_of(row), list_bytes_.begin() + i * row_bytes_);
  }
  return {"", next_id_++, now_ns, size, widths_, {list_bytes_.data(), size * row_bytes_}};
}

void DigestGatherer::settle(const DigestList& list, bool taken) {
  const auto size = static_cast<std::uint32_t>(list.size);
  List done{list.list_id, list.time_ns, gathered_.first, gathered_.first, size};
  for (std::uint32_t i = 1; i < size; ++i) done.last = rows_[done.last].next;
  gathered_.first = std::exchange(rows_[done.last].next, kNoRow);
  gathered_.size -= size;
  if (!taken) dropped_ += size;
  if (!taken || config_->ack_timeout_ns == 0) {
    release(done);
  } else {
    if (sent_count_ == sent_.size()) {
      release(sent_[oldest_]);
      pop_acknowledged();
    }
    sent_[(oldest_ + sent_count_++) % sent_.size()] = done;
  }
}

}  // namespace tiercast::engine
