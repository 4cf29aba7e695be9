#include "dataplane/sender/sessions/session_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"

namespace tiercast::sender {
namespace {

using testing::HasSubstr;

std::string error_of(v1::SessionSpec spec) {
  try {
    requests_of(spec);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(SenderSessionList, SpecsAreCompletedAndChecked) {
  v1::SessionSpec spec;
  spec.set_session(10);
  spec.set_count(3);
  spec.set_seed(5);
  (*spec.mutable_parameters())["sim.delta"] = "0.5";
  const auto requests = requests_of(spec);
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[2].scheme, "sim");
  EXPECT_EQ(requests[2].config.session, 12);
  EXPECT_EQ(requests[2].config.seed, 7u);
  EXPECT_EQ(requests[2].config.layers, 1u);  // an experiment's default, too
  EXPECT_EQ(requests[2].config.packet_size, 1000u);
  EXPECT_EQ(requests[2].top_rank, 0);
  EXPECT_EQ(requests[2].config.parameters.get("sim.delta"), 0.5);
  EXPECT_EQ(requests[2].config.members, nullptr);
  v1::Member& member = *spec.add_members();
  member.set_id(15);
  member.set_address("10.0.15.2");
  EXPECT_EQ(requests_of(spec)[2].config.members->address_of(15), 0x0a000f02u);
  *spec.add_members() = member;
  EXPECT_THAT(error_of(spec), HasSubstr("member 15 is given twice"));
  member.set_address("10.0.15");
  EXPECT_THAT(error_of(spec), HasSubstr("member 15: '10.0.15' is not an IPv4 address"));
  spec.clear_members();
  spec.set_packet_size(9001);
  EXPECT_THAT(error_of(spec), HasSubstr("packet_size = 9001"));
  spec.set_packet_size(0);
  spec.set_layers(8);
  EXPECT_EQ(requests_of(spec)[0].top_rank, 7);
  spec.set_layers(9);
  EXPECT_THAT(error_of(spec), HasSubstr("layers = 9 is out of range: valid 1 to 8"));
  spec.set_layers(0);
  spec.set_scheme("tfmcc");
  spec.clear_parameters();
  EXPECT_EQ(requests_of(spec)[0].config.layers, 1u);
  spec.set_session(32767);
  EXPECT_THAT(error_of(spec), HasSubstr("count = 3"));
  spec.set_scheme("udp");
  spec.set_session(0);
  EXPECT_THAT(error_of(spec), HasSubstr("unknown scheme 'udp'"));
}

// A sender that is started again with the same file has other packet numbers, and whoever lists its
// sessions sees the seed that gives them again.
TEST(SenderSessionList, ASeedThatIsNotGivenIsDrawnAndSaid) {
  v1::SessionSpec one, another;
  one.set_count(2);
  const auto requests = requests_of(one);
  ASSERT_TRUE(one.has_seed());
  EXPECT_EQ(requests[0].config.seed, one.seed());
  EXPECT_EQ(requests[1].config.seed, one.seed() + 1);
  EXPECT_NE(requests_of(another)[0].config.seed, one.seed());
  EXPECT_EQ(requests_of(one)[0].config.seed, one.seed());
}

TEST(SenderSessionList, FilesAreReadAndFaultsNamed) {
  const TemporaryFolder folder;
  const std::string path = folder.file("sessions.json");
  const auto error = [&path](const char* text) -> std::string {
    std::ofstream(path) << text;
    try {
      read_sessions(path);
    } catch (const ConfigError& caught) {
      return caught.what();
    }
    return "";
  };
  EXPECT_EQ(error(R"({"sessions": [{"session": 3, "packet_size": 50, "top_rank": -1}]})"), "");
  EXPECT_EQ(read_sessions(path).sessions(0).packet_size(), 50u);
  EXPECT_THAT(error(R"({"sessions": [{"colour": 3}]})"), HasSubstr("colour"));
  EXPECT_THAT(error("{"), HasSubstr(path));
  EXPECT_THAT(error("{}"), HasSubstr("no sessions"));
  EXPECT_THROW(read_sessions("/nonexistent"), ConfigError);
  const char* const with_keys =
      R"({"sessions": [{"keys": {"nonce": "AAAAAAAAAAAAAAAAAAAAAA==", "group": "", "feedback": ""}}]})";
  EXPECT_EQ(::chmod(path.c_str(), 0640), 0);
  EXPECT_THAT(error(with_keys), HasSubstr("others may use it, and it has keys (mode 640)"));
  EXPECT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(error(with_keys), "");
}

}  // namespace
}  // namespace tiercast::sender
