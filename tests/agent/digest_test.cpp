#include "agent/digest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "agent/file.h"
#include "protocols/base/units.h"
#include "tests/support/temporary_folder.h"

namespace tiercast::agent {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// The examples of FIPS 180-4 that NIST publishes.
TEST(AgentDigest, IsSha256) {
  EXPECT_EQ(format_digest(sha256({})),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(format_digest(sha256(bytes_of("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(AgentDigest, AFileIsReadFromItsFirstByteWhereverItsOffsetIs) {
  std::string text;
  for (int i = 0; i < 3'000'000; ++i) text += static_cast<char>('a' + i % 23);
  const TemporaryFolder folder;
  const UniqueFd file = create_file(folder.file("text"));
  ASSERT_EQ(write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  EXPECT_EQ(sha256_of_file(file.get()), sha256(bytes_of(text)));
}

TEST(AgentDigest, TextIsReadAsItIsWrittenAndNothingElse) {
  const Digest digest = sha256(bytes_of("abc"));
  const std::string text = format_digest(digest);
  EXPECT_EQ(parse_digest(text, "--sha256"), digest);
  const std::string shorter = text.substr(1), most = text.substr(0, 62);
  for (const std::string& wrong :
       std::vector<std::string>{shorter, text + "0", "", "x" + shorter, most + " 0", most + "-1"}) {
    try {
      parse_digest(wrong, "--sha256");
      FAIL() << wrong;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("--sha256: '" + wrong + "' is no SHA-256"));
    }
  }
}

}  // namespace
}  // namespace tiercast::agent
