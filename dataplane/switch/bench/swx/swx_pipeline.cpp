#include "dataplane/switch/bench/swx/swx_pipeline.h"

#include <fmt/format.h>
#include <rte_ethdev.h>
#include <rte_swx_ctl.h>
#include <rte_swx_pipeline.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace tiercast::bench {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

// Few, because when no packet is left each instruction takes a burst of buffers and gives it back.
constexpr std::uint32_t kInstructions = 100;  // run at a time
constexpr std::uint32_t kMostForLast = 512;   // that the last 16 packets, one a thread, need
constexpr std::uint32_t kFirstDevice = 2;     // output port
constexpr unsigned kBurst = 32;

File open(const std::string& path, const char* mode) {
  File file(std::fopen(path.c_str(), mode), std::fclose);
  if (file == nullptr) throw std::runtime_error(fmt::format("{}: {}", path, std::strerror(errno)));
  return file;
}

void require(int result, const std::string& what) {
  if (result == 0) return;
  throw std::runtime_error(fmt::format("SWX: {}: {}", what, std::strerror(std::abs(result))));
}

// The ports, in SWX's own language.
std::string ports_text(const std::string& source, std::uint32_t ports) {
  std::string text = "mirroring slots 4 sessions 64\n";
  text += fmt::format("port in 0 ethdev {} rxq 0 bsz {}\n", source, kBurst);
  for (std::uint32_t port = 0; port <= ports + 1; ++port) {
    text += port < kFirstDevice || port > ports
                ? fmt::format("port out {} sink file none\n", port)
                : fmt::format("port out {} ethdev net_null{} txq 0 bsz {}\n", port, port, kBurst);
  }
  return text;
}

}  // namespace

void generate_code(const std::string& spec, const std::string& code) {
  const File from = open(spec, "r");
  const File to = open(code, "w");
  std::uint32_t line = 0;
  const char* message = nullptr;
  if (rte_swx_pipeline_codegen(from.get(), to.get(), &line, &message) == 0) return;
  throw std::runtime_error(
      fmt::format("{}:{}: {}", spec, line, message == nullptr ? "unknown error" : message));
}

SwxPipeline::SwxPipeline(const std::string& name, const std::string& library,
                         const std::string& source, std::uint32_t ports, Copies copies,
                         const std::vector<Entry>& entries)
    : ports_(ports) {
  require(rte_eth_dev_get_port_by_name(source.c_str(), &source_), source);
  std::string text = ports_text(source, ports);
  const File file(fmemopen(text.data(), text.size(), "r"), std::fclose);
  require(rte_swx_pipeline_build_from_lib(&pipeline_, name.c_str(), library.c_str(), file.get(), 0),
          "building " + name);
  for (std::uint32_t port = kFirstDevice + 1; port <= ports; ++port) {
    rte_swx_pipeline_mirroring_session_params session{};
    session.port_id = port;
    session.fast_clone = copies == Copies::kShared ? 1 : 0;
    session.truncation_length = UINT32_MAX;
    require(
        rte_swx_ctl_pipeline_mirroring_session_set(pipeline_, port - kFirstDevice - 1, &session),
        "a mirroring session");
  }
  control_ = rte_swx_ctl_pipeline_create(pipeline_);
  if (control_ == nullptr) throw std::runtime_error("SWX: no control of " + name);
  for (const Entry& entry : entries) {
    rte_swx_table_entry* made = rte_swx_ctl_pipeline_table_entry_read(control_, entry.table.c_str(),
                                                                      entry.text.c_str(), nullptr);
    if (made == nullptr)
      throw std::runtime_error(fmt::format("SWX: table {}: '{}'", entry.table, entry.text));
    require(rte_swx_ctl_pipeline_table_entry_add(control_, entry.table.c_str(), made), entry.text);
  }
  require(rte_swx_ctl_pipeline_commit(control_, 1), "committing entries");
}

// net_null gives buffers of zeros, as many as it is asked for.
std::uint16_t SwxPipeline::fill(std::uint16_t, std::uint16_t, rte_mbuf** mbufs, std::uint16_t count,
                                std::uint16_t, void* self) {
  auto& swx = *static_cast<SwxPipeline*>(self);
  const auto used = static_cast<std::uint16_t>(std::min<std::uint64_t>(count, swx.left_));
  swx.left_ -= used;
  for (std::uint16_t i = 0; i < used; ++i) {
    std::memcpy(rte_pktmbuf_mtod(mbufs[i], void*), swx.frame_.data(), swx.frame_.size());
    mbufs[i]->data_len = static_cast<std::uint16_t>(swx.frame_.size());
    mbufs[i]->pkt_len = mbufs[i]->data_len;
  }
  for (std::uint16_t i = used; i < count; ++i) rte_pktmbuf_free(mbufs[i]);
  return used;
}

void SwxPipeline::run(std::span<const std::byte> frame, std::uint64_t packets) {
  frame_ = frame;
  left_ = packets;
  const rte_eth_rxtx_callback* filling = rte_eth_add_rx_callback(source_, 0, fill, this);
  if (filling == nullptr) throw std::runtime_error("no callback of the source");
  while (left_ > 0) rte_swx_pipeline_run(pipeline_, kInstructions);
  rte_swx_pipeline_run(pipeline_, kMostForLast);
  for (int i = 0; i < 2; ++i) rte_swx_pipeline_flush(pipeline_);  // the first call announces it
  rte_eth_remove_rx_callback(source_, 0, filling);
}

std::vector<SentFrame> SwxPipeline::pass(std::span<const std::byte> frame) {
  struct Port {
    std::uint32_t number;
    std::vector<SentFrame>* sent;
    std::uint16_t device = 0;
    const rte_eth_rxtx_callback* callback = nullptr;
  };
  const auto note = [](std::uint16_t, std::uint16_t, rte_mbuf** mbufs, std::uint16_t count,
                       void* to) {
    const Port& port = *static_cast<const Port*>(to);
    for (std::uint16_t i = 0; i < count; ++i) {
      const auto* bytes = rte_pktmbuf_mtod(mbufs[i], const std::byte*);
      port.sent->push_back({port.number, {bytes, bytes + mbufs[i]->data_len}});
    }
    return count;
  };
  std::vector<SentFrame> all;
  std::vector<Port> watched;
  for (std::uint32_t port = kFirstDevice; port <= ports_; ++port) watched.push_back({port, &all});
  for (Port& port : watched) {
    require(
        rte_eth_dev_get_port_by_name(fmt::format("net_null{}", port.number).c_str(), &port.device),
        "an output device");
    port.callback = rte_eth_add_tx_callback(port.device, 0, note, &port);
  }
  run(frame, 1);
  for (const Port& port : watched) rte_eth_remove_tx_callback(port.device, 0, port.callback);
  std::sort(all.begin(), all.end(),
            [](const SentFrame& a, const SentFrame& b) { return a.port < b.port; });
  return all;
}

std::uint64_t SwxPipeline::sent() const {
  std::uint64_t packets = 0;
  for (std::uint32_t port = kFirstDevice; port <= ports_; ++port) {
    rte_swx_port_out_stats stats{};
    require(rte_swx_ctl_pipeline_port_out_stats_read(pipeline_, port, &stats), "reading counts");
    packets += stats.n_pkts;
  }
  return packets;
}

}  // namespace tiercast::bench
