// A pipeline of DPDK's SWX (rte_swx_pipeline) that runs natively compiled code, on net_null
// devices: its packets come from memory.
#pragma once

#include <rte_mbuf.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

struct rte_swx_ctl_pipeline;
struct rte_swx_pipeline;

namespace tiercast::bench {

// Writes SWX's C code of a .spec file. Throws std::runtime_error, which names the file and line.
void generate_code(const std::string& spec, const std::string& code);

struct SentFrame {
  std::uint32_t port;
  std::vector<std::byte> bytes;
};

// How SWX makes copies of a packet: of all its bytes, or by one more reference to its buffer.
enum class Copies { kDeep, kShared };

// Stays until the process ends: rte_swx_pipeline_free() of DPDK 22.11 gives the buffers of the last
// burst back a second time, and later pipelines would share their packets' memory.
class SwxPipeline {
 public:
  struct Entry {
    std::string table, text;  // text: as in the files of DPDK's examples/pipeline
  };

  // library: made of generate_code()'s code. Packets arrive at SWX's port 0. Output port N of 2 to
  // ports is the device net_null<N>, the others are sinks, the last of which takes what is dropped.
  // The mirroring session N is port N + 3. Throws std::runtime_error.
  SwxPipeline(const std::string& name, const std::string& library, const std::string& source,
              std::uint32_t ports, Copies copies, const std::vector<Entry>& entries);
  SwxPipeline(const SwxPipeline&) = delete;
  SwxPipeline& operator=(const SwxPipeline&) = delete;

  // Sends the frame through the pipeline so many times. All packets have left when it returns.
  void run(std::span<const std::byte> frame, std::uint64_t packets);
  // Sends the frame once, and returns what leaves by devices, by port.
  std::vector<SentFrame> pass(std::span<const std::byte> frame);
  // Packets that were sent by devices, since the start.
  std::uint64_t sent() const;

 private:
  static std::uint16_t fill(std::uint16_t, std::uint16_t, rte_mbuf** mbufs, std::uint16_t count,
                            std::uint16_t, void* self);

  rte_swx_pipeline* pipeline_ = nullptr;
  rte_swx_ctl_pipeline* control_ = nullptr;
  std::uint16_t source_ = 0;  // DPDK's number of the device
  std::uint32_t ports_ = 0;
  std::span<const std::byte> frame_;
  std::uint64_t left_ = 0;  // packets that have not arrived yet
};

}  // namespace tiercast::bench
