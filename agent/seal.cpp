#include "agent/seal.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/text_file.h"
#include "protocols/base/units.h"
#include "protocols/wire/bytes.h"

namespace tiercast::agent {
namespace {

using WholeTag = std::array<std::byte, 32>;

void require(bool done) {
  if (!done) throw std::runtime_error("OpenSSL has no HMAC-SHA256 here");
}

// Microseconds since 1970.
std::uint64_t time_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

std::array<std::byte, kCounterBytes> bytes_of(std::uint64_t counter) {
  std::array<std::byte, kCounterBytes> bytes;
  wire::put32(bytes, 0, static_cast<std::uint32_t>(counter >> 32));
  wire::put32(bytes, 4, static_cast<std::uint32_t>(counter));
  return bytes;
}

template <std::size_t count>
void copy(const std::string& from, std::array<std::byte, count>& to, const char* name) {
  if (from.size() != count) {
    throw ConfigError(fmt::format("keys.{} has {} bytes; valid: {}", name, from.size(), count));
  }
  std::memcpy(to.data(), from.data(), count);
}

}  // namespace

// A context that has its key. Each tag begins it anew.
struct Authenticator::Mac {
  explicit Mac(const Key& key) {
    static EVP_MAC* const hmac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);  // for ever
    require(hmac != nullptr);
    context = EVP_MAC_CTX_new(hmac);
    char digest[] = "SHA256";
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end()};
    require(context != nullptr &&
            EVP_MAC_init(context, reinterpret_cast<const unsigned char*>(key.data()), key.size(),
                         parameters) == 1);
  }
  ~Mac() { EVP_MAC_CTX_free(context); }
  Mac(const Mac&) = delete;
  Mac& operator=(const Mac&) = delete;

  void begin() { require(EVP_MAC_init(context, nullptr, 0, nullptr) == 1); }
  void add(std::span<const std::byte> bytes) {
    require(EVP_MAC_update(context, reinterpret_cast<const unsigned char*>(bytes.data()),
                           bytes.size()) == 1);
  }
  WholeTag end() {
    WholeTag whole;
    std::size_t bytes = 0;
    require(EVP_MAC_final(context, reinterpret_cast<unsigned char*>(whole.data()), &bytes,
                          whole.size()) == 1 &&
            bytes == whole.size());
    return whole;
  }

  EVP_MAC_CTX* context = nullptr;
};

Authenticator::Authenticator(const Key& key, const Nonce& nonce)
    : mac_(std::make_unique<Mac>(key)), nonce_(nonce) {}
Authenticator::~Authenticator() = default;
Authenticator::Authenticator(Authenticator&&) noexcept = default;
Authenticator& Authenticator::operator=(Authenticator&&) noexcept = default;

Authenticator::Tag Authenticator::tag(std::span<const std::byte> message,
                                      std::span<const std::byte> counter) const {
  mac_->begin();
  mac_->add(nonce_);
  mac_->add(message);
  mac_->add(counter);
  const WholeTag whole = mac_->end();
  Tag tag;
  std::copy_n(whole.begin(), tag.size(), tag.begin());
  return tag;
}

std::optional<SessionKeys> keys_of(const v1::Keys& keys) {
  if (keys.nonce().empty() && keys.group().empty() && keys.feedback().empty()) return std::nullopt;
  SessionKeys out;
  copy(keys.nonce(), out.nonce, "nonce");
  copy(keys.group(), out.group, "group");
  copy(keys.feedback(), out.feedback, "feedback");
  return out;
}

v1::Keys read_keys(const std::string& path) {
  const TextFile file = read_text_file(path);
  file.require_private();
  v1::Keys keys;
  const auto status = google::protobuf::util::JsonStringToMessage(file.text, &keys);
  if (!status.ok() || !keys_of(keys)) {
    throw ConfigError(
        fmt::format("{}: no keys in it; valid: a file of `tiercast sessions keys`", path));
  }
  return keys;
}

Key key_of_receiver(const Key& session, std::uint32_t id) {
  std::array<std::byte, 4> number;
  wire::put32(number, 0, id);
  Key key;
  std::size_t bytes = 0;
  require(EVP_Q_mac(nullptr, "HMAC", nullptr, "SHA256", nullptr, session.data(), session.size(),
                    reinterpret_cast<const unsigned char*>(number.data()), number.size(),
                    reinterpret_cast<unsigned char*>(key.data()), key.size(), &bytes) != nullptr &&
          bytes == key.size());
  return key;
}

Sealer::Sealer(const Key& key, const Nonce& nonce)
    : authenticator_(key, nonce), counter_(time_us()) {}

std::span<const std::byte> Sealer::seal(std::span<const std::byte> message) {
  const auto counter = bytes_of(++counter_);
  const auto tag = authenticator_.tag(message, counter);
  sealed_.assign(message.begin(), message.end());
  sealed_.insert(sealed_.end(), counter.begin(), counter.end());
  sealed_.insert(sealed_.end(), tag.begin(), tag.end());
  return sealed_;
}

bool ReplayWindow::take(std::uint64_t counter) {
  if (counter > highest_) {
    const std::uint64_t ahead = counter - highest_;
    seen_ = (ahead < 64 ? seen_ << ahead : 0) | 1;
    highest_ = counter;
    return true;
  }
  const std::uint64_t behind = highest_ - counter;
  if (behind >= 64 || (seen_ >> behind & 1) != 0) return false;
  seen_ |= std::uint64_t{1} << behind;
  return true;
}

Seal Opener::open(std::span<const std::byte>& message) {
  if (message.size() < kSealBytes) return Seal::kForged;
  const auto content = message.first(message.size() - kSealBytes);
  const auto counter = message.subspan(content.size(), kCounterBytes);
  const auto tag = authenticator_.tag(content, counter);
  // Takes the same time wherever they differ.
  if (CRYPTO_memcmp(tag.data(), message.data() + content.size() + kCounterBytes, tag.size()) != 0) {
    return Seal::kForged;
  }
  const std::uint64_t number =
      static_cast<std::uint64_t>(wire::get32(counter, 0)) << 32 | wire::get32(counter, 4);
  if (!window_.take(number)) return Seal::kReplayed;
  message = content;
  return Seal::kIntact;
}

Seal FeedbackOpener::open(std::span<const std::byte>& message) {
  if (message.size() < source_at_ + 4 + kSealBytes) return Seal::kForged;
  const std::uint32_t id = wire::get32(message, source_at_);
  if (const auto known = openers_.find(id); known != openers_.end()) {
    return known->second.open(message);
  }
  // Only who has the key is remembered, so nobody else can fill the table.
  Opener opener(key_of_receiver(keys_.feedback, id), keys_.nonce);
  const Seal seal = opener.open(message);
  if (seal == Seal::kIntact) openers_.emplace(id, std::move(opener));
  return seal;
}

}  // namespace tiercast::agent
