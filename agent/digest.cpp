#include "agent/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "protocols/base/units.h"

namespace tiercast::agent {
namespace {

constexpr std::size_t kBlock = 1 << 20;

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    require(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void add(const void* bytes, std::size_t count) {
    require(EVP_DigestUpdate(context_.get(), bytes, count) == 1);
  }
  Digest take() {
    Digest digest;
    require(EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()),
                               nullptr) == 1);
    return digest;
  }

 private:
  static void require(bool done) {
    if (!done) throw std::runtime_error("OpenSSL has no SHA-256 here");
  }

  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

Digest sha256(std::span<const std::byte> bytes) {
  Sha256 sum;
  sum.add(bytes.data(), bytes.size());
  return sum.take();
}

Digest sha256_of_file(int descriptor) {
  Sha256 sum;
  std::vector<std::byte> block(kBlock);
  off_t offset = 0;
  for (;;) {
    const ssize_t count = pread(descriptor, block.data(), block.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw std::system_error(errno, std::generic_category(), "reading a file");
    if (count == 0) return sum.take();
    sum.add(block.data(), static_cast<std::size_t>(count));
    offset += count;
  }
}

std::string format_digest(const Digest& digest) {
  std::string text;
  for (const std::byte byte : digest) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

Digest parse_digest(std::string_view text, std::string_view what) {
  Digest digest{};
  bool good = text.size() == 2 * digest.size();
  for (std::size_t i = 0; good && i < digest.size(); ++i) {
    unsigned value = 0;
    const char* const first = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(first, first + 2, value, 16);
    good = error == std::errc() && end == first + 2;
    digest[i] = static_cast<std::byte>(value);
  }
  if (!good) {
    throw ConfigError(fmt::format(
        "{}: '{}' is no SHA-256; valid: 64 hexadecimal digits, as sha256sum prints", what, text));
  }
  return digest;
}

}  // namespace tiercast::agent
