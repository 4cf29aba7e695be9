// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/network/capture.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "protocols/base/units.h"

namespace tiercast::ns3_runtime {
namespace {

constexpr std::uint32_t kEthernet = 1;  // LINKTYPE_ETHERNET
constexpr std::uint64_t kFileHeaderBytes = 24, kRecordHeaderBytes = 16;
constexpr std::int64_t kSecondNs = 1'000'000'000;

// Does something with the file. Throws ConfigError with the reason if that fails.
template <typename Call>
void attempt(const ns3::PcapFile& file, const std::string& path, Call call) {
  errno = 0;
  call();
  if (!file.Fail()) return;
  throw ConfigError(path + ": " + (errno == 0 ? "cannot be written" : std::strerror(errno)));
}

}  // namespace

Capture::Capture(const v1::Capture& spec)
    : path_(spec.path()),
      snap_bytes_(spec.snap_bytes()),
      max_bytes_(spec.max_bytes()),
      bytes_(kFileHeaderBytes) {
  attempt(file_, path_, [&] { file_.Open(path_, std::ios::out); });
  attempt(file_, path_, [&] { file_.Init(kEthernet, snap_bytes_, 0, false, true); });
}

void Capture::add(std::int64_t time_ns, std::span<const std::byte> frame) {
  if (bytes_ >= max_bytes_) return;
  const auto size = static_cast<std::uint32_t>(frame.size());
  attempt(file_, path_, [&] {
    file_.Write(static_cast<std::uint32_t>(time_ns / kSecondNs),
                static_cast<std::uint32_t>(time_ns % kSecondNs),
                reinterpret_cast<const std::uint8_t*>(frame.data()), size);
  });
  bytes_ += kRecordHeaderBytes + std::min(size, snap_bytes_);
}

void Capture::finish() {
  attempt(file_, path_, [&] { file_.Close(); });
}

}  // namespace tiercast::ns3_runtime
