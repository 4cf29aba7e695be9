// How a script is parsed, how its names and numbers are understood, and how its errors read.
#include "dataplane/stf/script.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "dataplane/stf/names.h"
#include "dataplane/stf/runner.h"

namespace tiercast::stf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string error_of(const std::string& text) {
  try {
    parse_script(text);
  } catch (const ScriptError& error) {
    return error.what();
  }
  return "";
}

TEST(StfScript, ReadsEveryPartOfAnEntry) {
  const auto script = parse_script(
      "# a comment\n"
      "ADD t.one 10 a.b:0x0a** c[1].valid:0b1 d:1/24\n"
      "  e:3->7 act(p:1, q:0xff) = label  # continued\n");
  ASSERT_EQ(script.size(), 1u);
  const Command& c = script[0];
  EXPECT_EQ(c.verb, Verb::kAdd);
  EXPECT_EQ(c.line, 2);
  EXPECT_EQ(c.name, "t.one");
  EXPECT_EQ(c.priority, "10");
  EXPECT_THAT(c.matches, ElementsAre(Pair("a.b", "0x0a**"), Pair("c[1].valid", "0b1"),
                                     Pair("d", "1/24"), Pair("e", "3->7")));
  EXPECT_EQ(c.action, "act");
  EXPECT_THAT(c.arguments, ElementsAre(Pair("p", "1"), Pair("q", "0xff")));
  EXPECT_EQ(c.label, "label");
}

TEST(StfScript, ReadsPackets) {
  const auto script = parse_script("packet 1 0a 0B\nexpect 2 0a ** 1* $\nexpect 3\n");
  ASSERT_EQ(script.size(), 3u);
  EXPECT_EQ(script[0].data, "0a0B");
  EXPECT_EQ(script[1].data, "0a**1*");
  EXPECT_TRUE(script[1].exact_length);
  EXPECT_EQ(script[2].data, "");
  EXPECT_FALSE(script[2].exact_length);
}

TEST(StfScript, ErrorsNameLineAndPlace) {
  EXPECT_THAT(error_of("wait\njump 3\n"), HasSubstr("line 1: expected the end of the command"));
  EXPECT_THAT(error_of("jump 3\n"), HasSubstr("line 1: unknown command `jump`"));
  EXPECT_THAT(error_of("packet 1 0a0\n"), HasSubstr("whole bytes"));
  EXPECT_THAT(error_of("packet 1 0g\n"), HasSubstr("`0g` is not packet data"));
  EXPECT_THAT(error_of("packet x 00\n"), HasSubstr("`x` is not a port"));
  EXPECT_THAT(error_of("expect 1 00 $ 11\n"), HasSubstr("after `$`"));
  EXPECT_THAT(error_of("add t a: b()\n"), HasSubstr("expected"));
  EXPECT_THAT(error_of("\n\nadd t a:1 act(p\n"), HasSubstr("line 3: expected `:`"));
  EXPECT_THAT(error_of("check_counter c(1) bytes = 3\n"), HasSubstr("expected a comparison"));
  EXPECT_THAT(error_of("add \"t\n"), HasSubstr("without its end"));
}

TEST(StfNumbers, OfAnyWidth) {
  EXPECT_EQ(number_bytes("0x0102"), std::string("\x01\x02"));
  EXPECT_EQ(number_bytes("258"), std::string("\x01\x02"));
  EXPECT_EQ(number_bytes("0b100000010"), std::string("\x01\x02"));
  EXPECT_EQ(number_bytes("0xffffffffffffffffffff"), std::string(10, '\xff'));
  EXPECT_EQ(small_number("65535", 65535), 65535u);
  EXPECT_THROW(small_number("65536", 65535), NameError);
  EXPECT_THROW(small_number("0xffffffffffffffffffff", 65535), NameError);
  EXPECT_THROW(number_bytes("0x0*"), NameError);
  EXPECT_THROW(number_bytes("ten"), NameError);
}

engine::TableInfo table(engine::MatchKind kind, unsigned width) {
  engine::TableInfo info;
  info.name = "ingress.t";
  info.keys = {{"hdr.a.x", kind, width}, {"hdr.b.$valid$", engine::MatchKind::kExact, 1}};
  return info;
}

TEST(StfNames, KeysMayBeShort) {
  const auto info = table(engine::MatchKind::kExact, 16);
  for (const char* name : {"hdr.a.x", "a.x", "x"}) {
    const auto key = key_of(info, {{name, "7"}});
    EXPECT_EQ(key[0].value, std::string("\x07")) << name;
    EXPECT_EQ(key[1].value, std::string(1, '\0'));  // left out: 0
  }
  EXPECT_EQ(key_of(info, {{"hdr.b.valid", "1"}})[1].value, std::string("\x01"));
  EXPECT_EQ(key_of(info, {{"hdr.b", "1"}})[1].value, std::string("\x01"));
  EXPECT_THROW(key_of(info, {{"y", "1"}}), NameError);
}

// As in p4c's runner, a ternary mask is as long as the digits, and an lpm prefix has as many bits.
TEST(StfNames, MasksAndPrefixesComeFromTheDigits) {
  const auto ternary = key_of(table(engine::MatchKind::kTernary, 16), {{"x", "0x1*2"}})[0];
  EXPECT_EQ(ternary.value, std::string("\x01\x02"));
  EXPECT_EQ(ternary.mask, std::string("\x0f\x0f"));
  const auto lpm = key_of(table(engine::MatchKind::kLpm, 32), {{"x", "0x0a00****"}})[0];
  EXPECT_EQ(lpm.prefix_length, 16u);
  EXPECT_EQ(key_of(table(engine::MatchKind::kLpm, 32), {{"x", "0x0a000000/8"}})[0].prefix_length,
            8u);
  const auto range = key_of(table(engine::MatchKind::kRange, 16), {{"x", "3->300"}})[0];
  EXPECT_EQ(range.value, std::string("\x03"));
  EXPECT_EQ(range.mask, std::string("\x01\x2c"));
}

Verdict run(const std::string& program, const std::string& script) {
  std::ostringstream text;
  text << std::ifstream(std::string(TIERCAST_TEST_P4) + "/" + program + ".json").rdbuf();
  return run_script(engine::Program::load(text.str(), program), parse_script(script));
}

TEST(StfRunner, SaysWhatWasExpectedAndWhatCame) {
  EXPECT_TRUE(run("verify", "packet 1 07aa\nexpect 2 07\nexpect 3\npacket 1 ff").passed);
  EXPECT_EQ(run("verify", "packet 1 07aa\nexpect 2 08aa").reason,
            "line 2: port 2: expected 08aa got 07aa");
  EXPECT_EQ(run("verify", "packet 1 07aa\nexpect 2 07$").reason,
            "line 2: port 2: expected 07$ got 07aa");
  EXPECT_EQ(run("verify", "packet 1 07\nexpect 2 07\nexpect 2 *8").reason,
            "line 3: port 2: expected *8 got nothing");
  EXPECT_EQ(run("verify", "packet 1 07\npacket 1 09\nexpect 2 07").reason,
            "port 2: expected nothing more after 1 packets, got 09");
  EXPECT_THAT(run("verify", "packet 1 07\nadd t a:1 b()").reason,
              HasSubstr("line 2: no table `t`"));
  EXPECT_EQ(run("verify", "packet 511 07").reason, "line 1: port 511, valid: 0 to 510");
}

}  // namespace
}  // namespace tiercast::stf
