// Gathers the digests of one kind into lists, and remembers what needs not be sent again.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "dataplane/engine/control.h"

namespace tiercast::engine {

class DigestGatherer {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  // No config: digests are discarded. What was gathered is lost.
  void configure(std::optional<DigestConfig> config);
  const std::optional<DigestConfig>& config() const { return config_; }
  void add(DigestData digest, std::int64_t now_ns);
  void acknowledge(std::uint64_t list_id);
  // When take() has a list; kNever if nothing was gathered.
  std::int64_t due_ns() const;
  // What was gathered, as the next list. Its name is left to the caller.
  DigestList take(std::int64_t now_ns);

 private:
  void forget(std::int64_t now_ns);  // lists whose acknowledgement did not come in time

  std::optional<DigestConfig> config_;
  std::vector<DigestData> gathered_;
  std::int64_t first_ns_ = 0;  // of gathered_
  bool full_ = false;
  std::uint64_t next_id_ = 1;
  std::set<DigestData> known_;  // gathered, or sent and not yet acknowledged
  struct Sent {
    std::vector<DigestData> digests;
    std::int64_t time_ns;
  };
  std::map<std::uint64_t, Sent> sent_;
};

}  // namespace tiercast::engine
