// Gathers the digests of one kind into lists, and remembers which need not be sent again.
//
// Memory is bounded and allocated at the first configuration. A digest that finds no room is
// dropped and counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/engine/control/control.h"

namespace tiercast::engine {

class DigestGatherer {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  static constexpr std::uint32_t kMaxList = 1024;  // largest list, whatever is configured
  // The most digests that are gathered, or sent and not yet acknowledged: kMaxKept, or as many as
  // fit into kMaxBytes, but at least kMinKept.
  static constexpr std::uint32_t kMaxKept = 16384;
  static constexpr std::uint32_t kMinKept = 64;
  static constexpr std::size_t kMaxBytes = 4u << 20;

  // widths: bits of a digest's fields.
  explicit DigestGatherer(std::vector<unsigned> widths);

  // A new config keeps what was gathered. Without a config, digests are discarded, and those
  // gathered or sent are forgotten.
  void configure(std::optional<DigestConfig> config);
  const std::optional<DigestConfig>& config() const { return config_; }

  // Where to write the next digest: its fields in network order, each in whole bytes.
  std::span<std::byte> draft() { return draft_; }
  // Gathers the draft, unless an equal digest is already gathered, or sent and not yet
  // acknowledged.
  void add(std::int64_t now_ns);

  void acknowledge(std::uint64_t list_id);
  // When send() will have a list; kNever if nothing is gathered.
  std::int64_t due_ns() const;
  // Passes what was gathered to take(const DigestList&), which returns whether it took the list.
  // The list's name is left empty.
  template <class Take>
  void send(std::int64_t now_ns, const Take& take) {
    const DigestList list = next_list(now_ns);
    settle(list, take(list));
  }
  std::uint64_t dropped() const { return dropped_; }  // digests

 private:
  static constexpr std::uint32_t kNoRow = 0xffffffff;
  struct Row {
    std::uint32_t same_hash = kNoRow;  // next in its bucket
    std::uint32_t next = kNoRow;       // next row in its list, or next free row
  };
  struct List {
    std::uint64_t id = 0;
    std::int64_t time_ns = 0;
    std::uint32_t first = kNoRow, last = kNoRow;
    std::uint32_t size = 0;
  };

  std::uint32_t list_limit() const;
  std::span<std::byte> bytes_of(std::uint32_t row);
  std::uint32_t& bucket_of(std::span<const std::byte> digest);
  bool is_known(std::span<const std::byte> digest);
  void allocate();
  void clear();
  void release(List& list);          // frees the list's rows
  void forget(std::int64_t now_ns);  // forgets lists that were not acknowledged in time
  void pop_acknowledged();
  DigestList next_list(std::int64_t now_ns);
  void settle(const DigestList& list, bool taken);

  std::vector<unsigned> widths_;
  std::size_t row_bytes_ = 0;
  std::vector<std::byte> draft_;
  std::optional<DigestConfig> config_;

  std::vector<std::byte> bytes_;  // of all rows
  std::vector<Row> rows_;
  std::vector<std::uint32_t> buckets_;  // first row of each bucket
  std::uint32_t free_ = kNoRow;
  List gathered_;
  std::int64_t first_ns_ = 0;  // when the first digest of gathered_ came
  // A ring, oldest first, with a place for each row. Acknowledged lists behind the oldest stay in
  // it without rows; where they fill it, the oldest is forgotten before its time.
  std::vector<List> sent_;
  std::size_t oldest_ = 0, sent_count_ = 0;
  std::vector<std::byte> list_bytes_;  // of the list being handed over
  std::uint64_t next_id_ = 1;
  std::uint64_t dropped_ = 0;
};

}  // namespace tiercast::engine
