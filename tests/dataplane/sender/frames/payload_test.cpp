#include "dataplane/sender/frames/payload.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <span>
#include <string>

#include "protocols/base/units.h"
#include "tests/support/temporary_folder.h"

namespace tiercast::sender {
namespace {

TEST(SenderPayload, AFileIsSentOverAndOver) {
  const TemporaryFolder folder;
  const std::string path = folder.file("payload");
  std::ofstream(path) << "abcde";
  const auto sources = open_payload(path, 2);
  const auto& source = sources.front();
  std::string text(12, ' ');
  ASSERT_TRUE(source->fill(std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(text, "abcdeabcdeab");
  ASSERT_TRUE(source->fill(std::as_writable_bytes(std::span(text).first(3))));
  EXPECT_EQ(text.substr(0, 3), "cde");
  ASSERT_TRUE(sources.back()->fill(std::as_writable_bytes(std::span(text).first(3))));
  EXPECT_EQ(text.substr(0, 3), "abc");
  EXPECT_THROW(open_payload("/nonexistent", 1), ConfigError);
  EXPECT_EQ(open_payload("", 1).front(), nullptr);
}

TEST(SenderPayload, AStreamThatRunsDryIsFilledWithZeros) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "hello", 5), 5);
  close(ends[1]);
  const auto source = read_payload(ends[0]);
  std::string text;
  while (text.size() < 5) {  // until the reading thread has had its turn
    std::string part(1, ' ');
    if (source->fill(std::as_writable_bytes(std::span(part)))) text += part;
  }
  EXPECT_EQ(text, "hello");
  std::string dry(3, 'x');
  EXPECT_FALSE(source->fill(std::as_writable_bytes(std::span(dry))));
  EXPECT_EQ(dry, std::string(3, '\0'));
  close(ends[0]);
}

}  // namespace
}  // namespace tiercast::sender
