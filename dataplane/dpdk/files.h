// Files that a program writes: results, and captured frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

namespace tiercast::dpdk {

// Created, or truncated. Each call throws ConfigError if it fails; the text names `option` and the
// path.
class OutputFile {
 public:
  OutputFile(std::string option, std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // Until then, what was written may still be in this process.
  void flush();
  void close();

 private:
  void check(bool good) const;
  const std::string option_;
  const std::string path_;
  std::FILE* file_;
};

// Ethernet frames as pcap with nanoseconds.
class PcapFile {
 public:
  PcapFile(std::string option, std::string path);
  void write(std::int64_t time_ns, std::span<const std::byte> frame);
  void flush() { file_.flush(); }
  void close() { file_.close(); }

 private:
  OutputFile file_;
};

}  // namespace tiercast::dpdk
