// Seals: what shows that a message was written by who holds a key, and was not sent before.
//
// A sealed message is followed by a counter and a tag: the first 16 bytes of HMAC-SHA256 (RFC 2104)
// over the run's nonce, the message and the counter. docs/wire-format.md, "Seals", has the layout.
// The lab makes keys, others for each run; without a lab they are in files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "protocols/core/core.h"
#include "tiercast/v1/session.pb.h"

namespace tiercast::agent {

using Key = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 16>;

inline constexpr std::size_t kCounterBytes = 8;
inline constexpr std::size_t kTagBytes = 16;
inline constexpr std::size_t kSealBytes = kCounterBytes + kTagBytes;

// What the lab hands to an agent of a session.
struct SessionKeys {
  Nonce nonce{};  // of the run
  Key group{};    // of the sender's messages to its receivers
  // Senders: from which the receivers' keys are made. Receivers: its own, of its feedback.
  Key feedback{};
};
// Empty if there are none. ConfigError: one of them has another length.
std::optional<SessionKeys> keys_of(const v1::Keys& keys);
// Those of a file of `tiercast sessions keys`. ConfigError: it has none, or others may use it.
v1::Keys read_keys(const std::string& path);

// The key of a receiver's feedback: HMAC-SHA256 of its number, with the session's key.
Key key_of_receiver(const Key& session, std::uint32_t id);

// Messages that never reached a core, where they are sealed.
struct SealRefusals {
  std::uint64_t forged = 0;    // without the seal of who they claim to be from
  std::uint64_t replayed = 0;  // seen before
  std::uint64_t total() const { return forged + replayed; }
};

// "seal.refused", written only if there is any
inline std::array<TraceField, 2> seal_refused_row(const SealRefusals& refusals) {
  return {{{"forged", static_cast<double>(refusals.forged)},
           {"replayed", static_cast<double>(refusals.replayed)}}};
}

enum class Seal { kIntact, kForged, kReplayed };

// Tags of one key.
class Authenticator {
 public:
  using Tag = std::array<std::byte, kTagBytes>;
  Authenticator(const Key& key, const Nonce& nonce);
  ~Authenticator();
  Authenticator(Authenticator&&) noexcept;
  Authenticator& operator=(Authenticator&&) noexcept;

  Tag tag(std::span<const std::byte> message, std::span<const std::byte> counter) const;

 private:
  struct Mac;
  std::unique_ptr<Mac> mac_;
  Nonce nonce_;
};

class Sealer {
 public:
  // Counts from the time on, so that a program that is started again goes on above.
  Sealer(const Key& key, const Nonce& nonce);
  // The message with its seal. Valid until the next call.
  std::span<const std::byte> seal(std::span<const std::byte> message);

 private:
  Authenticator authenticator_;
  std::uint64_t counter_;
  std::vector<std::byte> sealed_;
};

// Which counters were seen: those up to 63 below the highest one (RFC 4303, 3.4.3).
class ReplayWindow {
 public:
  // Whether it has not been seen; it then has. What is further below counts as seen.
  bool take(std::uint64_t counter);

 private:
  std::uint64_t highest_ = 0;
  std::uint64_t seen_ = 0;  // bit i: highest_ - i
};

// Checks the seals of one key.
class Opener {
 public:
  Opener(const Key& key, const Nonce& nonce) : authenticator_(key, nonce) {}
  // If it is intact, `message` is then without its seal.
  Seal open(std::span<const std::byte>& message);

 private:
  Authenticator authenticator_;
  ReplayWindow window_;
};

// Checks the seals of all receivers' feedback, each with the key of the number that it names.
class FeedbackOpener {
 public:
  // `source_at`: where a message has that number (Scheme::feedback_source_at).
  FeedbackOpener(const SessionKeys& keys, std::size_t source_at)
      : keys_(keys), source_at_(source_at) {}
  Seal open(std::span<const std::byte>& message);

 private:
  SessionKeys keys_;
  std::size_t source_at_;
  std::unordered_map<std::uint32_t, Opener> openers_;  // of those who have shown their key
};

}  // namespace tiercast::agent
