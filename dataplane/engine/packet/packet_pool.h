// Reusable packets and frame buffers. Once the pool has grown to what the traffic needs, packets no
// longer allocate memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "dataplane/engine/packet/lent_frame.h"
#include "dataplane/engine/packet/value.h"

namespace tiercast::engine {

constexpr std::uint32_t kMaxFrameBytes = 65535;

// Shared by the copies of a packet.
struct FrameBuffer {
  std::byte* bytes = nullptr;  // its own memory, or lent
  std::uint32_t size = 0;
  std::uint32_t capacity = 0;  // of its own memory
  std::uint32_t references = 0;
  bool is_shown = false;          // lent memory that somebody else still reads: it must not change
  FrameLender* lender = nullptr;  // null: its own memory
  void* handle = nullptr;         // the lender's
  FrameBuffer* next = nullptr;
  std::unique_ptr<std::byte[]> own;
  std::span<const std::byte> frame() const { return {bytes, size}; }
  std::span<std::byte> frame() { return {bytes, size}; }
  bool is_shared() const { return references > 1 || is_shown; }
};

struct alignas(64) Packet {           // what is always used lies in one cache line
  Cell* phv = nullptr;                // the packet vector, if the pool has lent one
  FrameBuffer* buffer = nullptr;      // the frame as received; after the deparser, as it leaves
  std::uint32_t cursor = 0;           // bytes of the buffer that the parser consumed
  std::uint32_t received_length = 0;  // bytes; standard_metadata.packet_length
  std::uint32_t ingress_port = 0;
  std::uint32_t label = 0;                  // see LabelRule; set when the packet enters a queue
  std::uint32_t truncate = kMaxFrameBytes;  // bytes of the frame to keep
  std::uint32_t generation = 0;             // times that it was cloned, resubmitted or recirculated
  std::uint32_t queue_bytes = 0;            // bytes that it adds to the queue's length
  std::uint32_t enq_qdepth = 0;
  std::uint8_t priority = 0;  // set when the packet enters a queue; 0: the lowest
  bool is_written = false;    // the frame already contains its headers, as long as
                              // Image::egress_watch is 0
  bool is_marked = false;     // RED on arrival has decided that the frame gets CE when it leaves
  std::uint32_t copy = 0;     // copy number of a traced packet
  std::uint32_t order = 0;    // among the packets of its flow, where they wait by layer
  std::uint64_t trace = 0;    // number of a traced packet; 0: not traced
  std::int64_t time_ns = 0;   // in a queue: when it arrived; on a wire: when it leaves
  Packet* next = nullptr;
};

class PacketList {
 public:
  bool empty() const { return head_ == nullptr; }
  Packet* head() const { return head_; }
  void push(Packet* packet) {
    packet->next = nullptr;
    (head_ == nullptr ? head_ : tail_->next) = packet;
    tail_ = packet;
  }
  Packet* pop() {
    Packet* packet = head_;
    head_ = packet->next;
    return packet;
  }

 private:
  Packet* head_ = nullptr;
  Packet* tail_ = nullptr;
};

class PacketPool {
 public:
  explicit PacketPool(std::size_t phv_cells) : phv_cells_(phv_cells) {}
  PacketPool(const PacketPool&) = delete;
  PacketPool& operator=(const PacketPool&) = delete;
  // Gives back what packets that are still in use have borrowed.
  ~PacketPool() {
    for (FrameBuffer& buffer : buffers_) {
      if (buffer.references > 0) give_back(buffer);
    }
  }
  std::size_t phv_cells() const { return phv_cells_; }
  std::size_t vectors() const { return vectors_.size(); }  // all, lent or not

  // Returns a packet. It may still have the vector of an earlier one.
  Packet* take() {
    if (free_ == nullptr) free_ = &packets_.emplace_back();
    Packet* packet = free_;
    free_ = packet->next;
    packet->next = nullptr;
    packet->buffer = nullptr;
    packet->cursor = packet->generation = 0;
    packet->truncate = kMaxFrameBytes;
    packet->trace = 0;
    packet->is_written = packet->is_marked = false;
    return packet;
  }
  void give(Packet* packet) {
    if (packet->buffer != nullptr) release(packet->buffer);
    packet->next = free_;
    free_ = packet;
  }
  void give(PacketList& list) {
    while (!list.empty()) give(list.pop());
  }

  // For a packet that is going to be parsed, or to become a copy. The values are those of an
  // earlier packet. A vector is large, and thousands of packets may be on wires, where none is
  // needed: they give theirs back, and the last one, which is in the cache, is lent first.
  void lend_vector(Packet& packet) {
    if (packet.phv != nullptr) return;
    if (free_vectors_.empty()) [[unlikely]]
      add_vector();
    packet.phv = free_vectors_.back();
    free_vectors_.pop_back();
  }
  void take_vector_back(Packet& packet) {
    if (packet.phv != nullptr) free_vectors_.push_back(std::exchange(packet.phv, nullptr));
  }

  FrameBuffer* take_buffer(std::uint32_t size) {
    FrameBuffer* buffer = take_free_buffer();
    if (buffer->capacity < size + kSlack) {
      buffer->capacity = ((size + kSlack) / kGranule + 1) * kGranule;
      buffer->own = std::make_unique_for_overwrite<std::byte[]>(buffer->capacity);
    }
    buffer->bytes = buffer->own.get();
    buffer->size = size;
    return buffer;
  }
  FrameBuffer* take_lent(const LentFrame& frame) {
    FrameBuffer* buffer = take_free_buffer();
    buffer->bytes = frame.bytes.data();
    buffer->size = static_cast<std::uint32_t>(frame.bytes.size());
    buffer->lender = frame.lender;
    buffer->handle = frame.handle;
    return buffer;
  }
  FrameBuffer* share(FrameBuffer* buffer) {
    ++buffer->references;
    return buffer;
  }
  // Makes the packet's frame its own, so that a change of it is no change of a copy's.
  void unshare(Packet& packet) {
    FrameBuffer* shared = packet.buffer;
    if (!shared->is_shared()) return;
    packet.buffer = take_buffer(shared->size);
    std::copy_n(shared->bytes, shared->size, packet.buffer->bytes);
    release(shared);
  }
  void release(FrameBuffer* buffer) {
    if (--buffer->references > 0) return;
    give_back(*buffer);
    buffer->next = free_buffer_;
    free_buffer_ = buffer;
  }

 private:
  static constexpr std::size_t kLineCells = 8;
  struct alignas(kLineCells * sizeof(Cell)) CacheLine {
    Cell cells[kLineCells];
  };
  [[gnu::noinline]] void add_vector() {
    vectors_.push_back(std::make_unique<CacheLine[]>((phv_cells_ + kLineCells - 1) / kLineCells));
    free_vectors_.reserve(vectors_.capacity());  // so that none allocates when it comes back
    free_vectors_.push_back(vectors_.back()[0].cells);
  }
  static constexpr std::uint32_t kGranule = 2048;
  static constexpr std::uint32_t kSlack = 8;  // bytes that the parser's loads may read beyond the
                                              // end
  FrameBuffer* take_free_buffer() {
    if (free_buffer_ == nullptr) free_buffer_ = &buffers_.emplace_back();
    FrameBuffer* buffer = free_buffer_;
    free_buffer_ = buffer->next;
    buffer->references = 1;
    buffer->is_shown = false;
    return buffer;
  }
  static void give_back(FrameBuffer& buffer) {
    if (buffer.lender == nullptr) return;
    buffer.lender->take_back(buffer.handle);
    buffer.lender = nullptr;
  }

  std::size_t phv_cells_;
  std::deque<Packet> packets_;
  std::vector<std::unique_ptr<CacheLine[]>> vectors_;
  std::vector<Cell*> free_vectors_;
  std::deque<FrameBuffer> buffers_;
  Packet* free_ = nullptr;
  FrameBuffer* free_buffer_ = nullptr;
};

}  // namespace tiercast::engine
