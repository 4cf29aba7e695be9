#include "dataplane/dpdk/files.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "protocols/base/units.h"

namespace tiercast::dpdk {

OutputFile::OutputFile(std::string option, std::string path)
    : option_(std::move(option)), path_(std::move(path)), file_(std::fopen(path_.c_str(), "wb")) {
  check(file_ != nullptr);
}

OutputFile::~OutputFile() {
  if (file_ != nullptr) std::fclose(file_);
}

void OutputFile::write(const void* data, std::size_t bytes) {
  check(std::fwrite(data, 1, bytes, file_) == bytes);
}

void OutputFile::flush() { check(std::fflush(file_) == 0); }

void OutputFile::close() {
  std::FILE* const file = std::exchange(file_, nullptr);
  check(std::fclose(file) == 0);
}

void OutputFile::check(bool good) const {
  if (!good) throw ConfigError(fmt::format("{}: {}: {}", option_, path_, std::strerror(errno)));
}

PcapFile::PcapFile(std::string option, std::string path)
    : file_(std::move(option), std::move(path)) {
  // Magic 0xa1b23c4d, version 2.4, link type Ethernet.
  const std::array<std::uint32_t, 6> header{0xa1b23c4d, 2 | 4 << 16, 0, 0, 65535, 1};
  file_.write(header.data(), sizeof header);
}

void PcapFile::write(std::int64_t time_ns, std::span<const std::byte> frame) {
  const auto size = static_cast<std::uint32_t>(frame.size());
  const std::array<std::uint32_t, 4> header{static_cast<std::uint32_t>(time_ns / 1'000'000'000),
                                            static_cast<std::uint32_t>(time_ns % 1'000'000'000),
                                            size, size};
  file_.write(header.data(), sizeof header);
  file_.write(frame.data(), frame.size());
}

}  // namespace tiercast::dpdk
