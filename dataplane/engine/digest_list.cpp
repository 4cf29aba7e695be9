#include "dataplane/engine/digest_list.h"

#include <utility>

namespace tiercast::engine {

void DigestGatherer::configure(std::optional<DigestConfig> config) {
  config_ = config;
  gathered_.clear();
  known_.clear();
  sent_.clear();
  full_ = false;
}

void DigestGatherer::forget(std::int64_t now_ns) {
  while (!sent_.empty() && now_ns - sent_.begin()->second.time_ns >= config_->ack_timeout_ns) {
    acknowledge(sent_.begin()->first);
  }
}

void DigestGatherer::add(DigestData digest, std::int64_t now_ns) {
  if (!config_) return;
  forget(now_ns);
  if (config_->ack_timeout_ns > 0 && !known_.insert(digest).second) return;
  if (gathered_.empty()) first_ns_ = now_ns;
  gathered_.push_back(std::move(digest));
  full_ = config_->max_list_size != 0 && gathered_.size() >= config_->max_list_size;
}

void DigestGatherer::acknowledge(std::uint64_t list_id) {
  const auto found = sent_.find(list_id);
  if (found == sent_.end()) return;
  for (const DigestData& digest : found->second.digests) known_.erase(digest);
  sent_.erase(found);
}

std::int64_t DigestGatherer::due_ns() const {
  if (gathered_.empty()) return kNever;
  return full_ ? first_ns_ : first_ns_ + config_->max_timeout_ns;
}

DigestList DigestGatherer::take(std::int64_t now_ns) {
  DigestList list{"", next_id_++, std::exchange(gathered_, {}), now_ns};
  full_ = false;
  if (config_->ack_timeout_ns > 0) sent_[list.list_id] = {list.digests, now_ns};
  return list;
}

}  // namespace tiercast::engine
