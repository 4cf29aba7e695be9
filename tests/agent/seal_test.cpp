#include "agent/seal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocols/base/rng.h"
#include "protocols/base/units.h"
#include "protocols/wire/bytes.h"

namespace tiercast::agent {
namespace {

using testing::HasSubstr;
using Message = std::vector<std::byte>;

constexpr std::size_t kSourceAt = 8;

Key key(unsigned fill) {
  Key out;
  out.fill(static_cast<std::byte>(fill));
  return out;
}

Nonce nonce(unsigned fill) {
  Nonce out;
  out.fill(static_cast<std::byte>(fill));
  return out;
}

Message feedback(std::uint32_t id, unsigned bytes = 28) {
  Message message(bytes);
  wire::put32(message, kSourceAt, id);
  return message;
}

Message copy(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

Seal open(Opener& opener, std::span<const std::byte> message) { return opener.open(message); }
Seal open(FeedbackOpener& opener, std::span<const std::byte> message) {
  return opener.open(message);
}

// The tag that Python's hmac gives: hmac.digest(bytes([7] * 32), bytes([9] * 16) + b"abc" +
// bytes([0] * 7 + [1]), "sha256")[:16].
TEST(AgentSeal, TagsAreTruncatedHmacSha256) {
  const std::string text = "abc";
  Message counter(8);
  counter.back() = std::byte{1};
  const auto tag = Authenticator(key(7), nonce(9)).tag(std::as_bytes(std::span(text)), counter);
  std::string hex;
  for (const std::byte byte : tag) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(byte));
    hex += digits;
  }
  EXPECT_EQ(hex, "3762a4323617dfeed88a4f44feb8de4b");
}

TEST(AgentSeal, WhatWasSealedIsOpenedOnce) {
  Sealer sealer(key(1), nonce(2));
  Opener opener(key(1), nonce(2));
  const Message message = feedback(15);
  const Message sealed = copy(sealer.seal(message));
  ASSERT_EQ(sealed.size(), message.size() + kSealBytes);
  std::span<const std::byte> opened = sealed;
  EXPECT_EQ(opener.open(opened), Seal::kIntact);
  EXPECT_EQ(copy(opened), message);
  EXPECT_EQ(open(opener, sealed), Seal::kReplayed);
  EXPECT_EQ(open(opener, sealer.seal(message)), Seal::kIntact);
  EXPECT_EQ(open(opener, sealed), Seal::kReplayed);
}

TEST(AgentSeal, AChangedBitAnotherKeyAndAnotherRunAreForged) {
  Sealer sealer(key(1), nonce(2));
  Opener opener(key(1), nonce(2));
  const Message sealed = copy(sealer.seal(feedback(15)));
  for (std::size_t bit = 0; bit < 8 * sealed.size(); ++bit) {
    Message changed = sealed;
    changed[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    ASSERT_EQ(open(opener, changed), Seal::kForged) << "bit " << bit;
  }
  for (std::size_t size = 0; size < sealed.size(); ++size) {
    ASSERT_EQ(open(opener, std::span(sealed).first(size)), Seal::kForged) << size << " bytes";
  }
  Opener of_another_key(key(3), nonce(2)), of_another_run(key(1), nonce(3));
  EXPECT_EQ(open(of_another_key, sealed), Seal::kForged);
  EXPECT_EQ(open(of_another_run, sealed), Seal::kForged);
  EXPECT_EQ(open(opener, sealed), Seal::kIntact);
}

// RFC 4303, 3.4.3, with 64 counters.
TEST(AgentSeal, TheWindowTakesEachCounterOnceAndNoneFarBehind) {
  ReplayWindow window;
  EXPECT_TRUE(window.take(1000));
  EXPECT_FALSE(window.take(1000));
  EXPECT_TRUE(window.take(937));
  EXPECT_FALSE(window.take(937));
  EXPECT_FALSE(window.take(936));
  EXPECT_TRUE(window.take(1001));
  EXPECT_FALSE(window.take(937));
  EXPECT_TRUE(window.take(999));
  EXPECT_TRUE(window.take(1064));
  EXPECT_FALSE(window.take(1000));
  EXPECT_FALSE(window.take(1001));
  EXPECT_TRUE(window.take(1002));
  EXPECT_TRUE(window.take(1'000'000));
  EXPECT_FALSE(window.take(1064));
}

TEST(AgentSeal, TheWindowIsThatOfASetOfAllThatWasSeen) {
  Rng rng(11);
  ReplayWindow window;
  std::vector<bool> seen(5000);
  std::uint64_t highest = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t near = highest + 8 - std::min<std::uint64_t>(highest, rng.below(90));
    const std::uint64_t counter = std::min<std::uint64_t>(std::max<std::uint64_t>(near, 1), 4999);
    const bool fresh = !seen[counter] && counter + 64 > highest;
    ASSERT_EQ(window.take(counter), fresh) << counter << " below " << highest;
    seen[counter] = true;
    highest = std::max(highest, counter);
  }
}

// As two runs of one program: the later one counts on.
TEST(AgentSeal, AProgramThatIsStartedAgainIsHeard) {
  Opener opener(key(1), nonce(2));
  for (int i = 0; i < 3; ++i) {
    Sealer sealer(key(1), nonce(2));
    EXPECT_EQ(open(opener, sealer.seal(feedback(15))), Seal::kIntact);
  }
}

TEST(AgentSeal, AReceiversKeyIsOfItsNumberAlone) {
  const SessionKeys keys{.nonce = nonce(2), .group = key(4), .feedback = key(1)};
  FeedbackOpener opener(keys, kSourceAt);
  const Key of_15 = key_of_receiver(keys.feedback, 15), of_16 = key_of_receiver(keys.feedback, 16);
  EXPECT_NE(of_15, of_16);
  Sealer sealer(of_15, keys.nonce);
  const Message own = copy(sealer.seal(feedback(15)));
  EXPECT_EQ(open(opener, own), Seal::kIntact);
  EXPECT_EQ(open(opener, own), Seal::kReplayed);
  EXPECT_EQ(open(opener, sealer.seal(feedback(16))), Seal::kForged);
  Sealer other(of_16, keys.nonce);
  EXPECT_EQ(open(opener, other.seal(feedback(16))), Seal::kIntact);  // a window of its own
  EXPECT_EQ(open(opener, feedback(15)), Seal::kForged);
  EXPECT_EQ(open(opener, {}), Seal::kForged);
}

TEST(AgentSeal, KeysHaveTheirLength) {
  EXPECT_EQ(keys_of({}), std::nullopt);
  v1::Keys keys;
  keys.set_nonce(std::string(16, 'n'));
  keys.set_group(std::string(32, 'g'));
  keys.set_feedback(std::string(31, 'f'));
  try {
    keys_of(keys);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("keys.feedback has 31 bytes; valid: 32"));
  }
  keys.set_feedback(std::string(32, 'f'));
  EXPECT_EQ(keys_of(keys)->feedback[31], std::byte{'f'});
}

}  // namespace
}  // namespace tiercast::agent
