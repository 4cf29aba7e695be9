// SHA-256 (FIPS 180-4) of the objects that reliable transfers carry: what `sha256sum` prints.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tiercast::agent {

using Digest = std::array<std::byte, 32>;

Digest sha256(std::span<const std::byte> bytes);
// Of a whole file, from its first byte on. std::system_error: it cannot be read.
Digest sha256_of_file(int descriptor);

std::string format_digest(const Digest& digest);  // 64 hexadecimal digits
// ConfigError names `what`, the text and the expected form.
Digest parse_digest(std::string_view text, std::string_view what);

}  // namespace tiercast::agent
