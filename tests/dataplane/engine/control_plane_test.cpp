// The control API: what it accepts, what it reads back, and how it refuses.
#include <gmock/gmock.h>

#include "tests/dataplane/engine/testing.h"

namespace tiercast::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kHost = "MyIngress.host";
constexpr const char* kRoute = "MyIngress.route";

ActionCall forward(unsigned port) {
  return {"MyIngress.forward", {big_endian(port, 2), big_endian(0x020000000001, 6)}};
}
TableEntry host(std::uint32_t address, unsigned port) {
  return {{FieldMatch::exact(big_endian(address, 4))}, 0, forward(port), {}};
}
TableEntry route(std::uint32_t address, unsigned length, unsigned port) {
  return {{FieldMatch::lpm(big_endian(address, 4), length)}, 0, forward(port), {}};
}

class Control : public ::testing::Test {
 protected:
  void expect(const Status& status, ErrorCode code, const std::string& text) {
    EXPECT_EQ(status.code(), code) << to_string(status.code()) << ": " << status.message();
    EXPECT_THAT(status.message(), HasSubstr(text));
  }
  Bench bench{"router"};
  Switch& sw = bench.sw;
};

TEST_F(Control, EntriesAreReadBackInCanonicalForm) {
  EXPECT_OK(sw.insert_entry(kHost, host(0x0a000002, 3)));
  const auto entries = sw.read_entries(kHost);
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 1u);
  EXPECT_EQ((*entries)[0].match[0].value, "\x0a" + Bytes(2, '\0') + "\x02");
  EXPECT_EQ((*entries)[0].action.name, "MyIngress.forward");
  EXPECT_THAT((*entries)[0].action.arguments,
              ElementsAre(Bytes("\x03"), big_endian(0x020000000001, 6)));
  EXPECT_FALSE((*entries)[0].counter);

  EXPECT_OK(sw.modify_entry(kHost, host(0x0a000002, 4)));
  EXPECT_EQ(sw.read_entry(kHost, host(0x0a000002, 0))->action.arguments[0], "\x04");
  EXPECT_OK(sw.delete_entry(kHost, host(0x0a000002, 0)));
  EXPECT_TRUE(sw.read_entries(kHost)->empty());
}

TEST_F(Control, EntryErrors) {
  EXPECT_OK(sw.insert_entry(kHost, host(1, 3)));
  expect(sw.insert_entry(kHost, host(1, 4)), ErrorCode::kAlreadyExists,
         "already has entry hdr.ipv4.dst=0x00000001");
  expect(sw.modify_entry(kHost, host(2, 4)), ErrorCode::kNotFound, "hdr.ipv4.dst=0x00000002");
  expect(sw.delete_entry(kHost, host(2, 4)), ErrorCode::kNotFound, "MyIngress.host");
  expect(sw.insert_entry("nowhere", host(2, 4)), ErrorCode::kNotFound,
         "no table `nowhere` in the program; there are: ");

  TableEntry entry = host(2, 4);
  entry.match[0].value = Bytes("\x01\x00\x00\x00\x00", 5);
  expect(sw.insert_entry(kHost, entry), ErrorCode::kInvalidArgument, "does not fit in 32 bits");
  entry.match[0].value = "";
  expect(sw.insert_entry(kHost, entry), ErrorCode::kInvalidArgument, "empty value");
  entry.match.clear();
  expect(sw.insert_entry(kHost, entry), ErrorCode::kInvalidArgument, "has 1 key fields");
  entry = host(2, 4);
  entry.priority = 3;
  expect(sw.insert_entry(kHost, entry), ErrorCode::kInvalidArgument, "priority 3, valid: 0");
  entry = host(2, 4);
  entry.match[0].any = true;
  expect(sw.insert_entry(kHost, entry), ErrorCode::kInvalidArgument, "exact field needs a value");
  entry = host(2, 512);
  expect(sw.insert_entry(kHost, entry), ErrorCode::kInvalidArgument,
         "parameter port: 0x0200 does not fit in 9 bits");
  entry = host(2, 4);
  entry.action.arguments.pop_back();
  expect(sw.insert_entry(kHost, entry), ErrorCode::kInvalidArgument, "takes 2 arguments, found 1");
  entry.action.name = "fly";
  expect(sw.insert_entry(kHost, entry), ErrorCode::kInvalidArgument,
         "no action `fly`, valid: MyIngress.forward, MyIngress.replicate");
  expect(sw.insert_entry(kRoute, route(0, 33, 1)), ErrorCode::kInvalidArgument,
         "prefix length 33, valid: 0 to 32");
}

TEST_F(Control, ATableHoldsItsDeclaredSize) {
  for (std::uint32_t i = 0; i < 8; ++i) EXPECT_OK(sw.insert_entry(kRoute, route(i << 24, 8, 1)));
  expect(sw.insert_entry(kRoute, route(9 << 24, 8, 1)), ErrorCode::kResourceExhausted,
         "its size is 8");
  EXPECT_OK(sw.delete_entry(kRoute, route(0, 8, 1)));
  EXPECT_OK(sw.insert_entry(kRoute, route(9 << 24, 8, 1)));
}

TEST_F(Control, PrefixesAreComparedByTheirBits) {
  EXPECT_OK(sw.insert_entry(kRoute, route(0x0a0000ff, 8, 1)));
  expect(sw.insert_entry(kRoute, route(0x0a000000, 8, 2)), ErrorCode::kAlreadyExists, "/8");
  EXPECT_OK(sw.insert_entry(kRoute, {{FieldMatch::dont_care()}, 0, forward(2), {}}));
  expect(sw.insert_entry(kRoute, route(0, 0, 2)), ErrorCode::kAlreadyExists, "/0");
}

TEST_F(Control, DefaultActions) {
  EXPECT_EQ(sw.default_action(kRoute)->name, "MyIngress.drop");
  EXPECT_OK(sw.set_default_action(kRoute, forward(7)));
  EXPECT_EQ(sw.default_action(kRoute)->arguments[0], "\x07");
  expect(sw.set_default_action(kRoute, {"fly", {}}), ErrorCode::kInvalidArgument, "fly");
  EXPECT_OK(sw.reset_default_action(kRoute));
  EXPECT_EQ(sw.default_action(kRoute)->name, "MyIngress.drop");
  expect(sw.set_default_action("MyIngress.mirror", {"NoAction", {}}), ErrorCode::kPermissionDenied,
         "constant");
}

TEST_F(Control, MulticastGroups) {
  EXPECT_OK(sw.insert_multicast_group(5, {{1, 1}, {2, 1}}));
  expect(sw.insert_multicast_group(5, {}), ErrorCode::kAlreadyExists, "multicast group 5");
  expect(sw.insert_multicast_group(0, {}), ErrorCode::kInvalidArgument, "valid: 1 to 65535");
  expect(sw.insert_multicast_group(6, {{1, 1}, {1, 1}}), ErrorCode::kInvalidArgument, "twice");
  expect(sw.insert_multicast_group(6, {{512, 1}}), ErrorCode::kInvalidArgument, "port 512");
  EXPECT_OK(sw.modify_multicast_group(5, {{3, 0}}));
  EXPECT_THAT(*sw.multicast_group(5), ElementsAre(Replica{3, 0}));
  EXPECT_THAT(sw.multicast_groups(), ElementsAre(5));
  expect(sw.modify_multicast_group(6, {}), ErrorCode::kNotFound, "multicast group 6");
  EXPECT_OK(sw.delete_multicast_group(5));
  expect(sw.delete_multicast_group(5), ErrorCode::kNotFound, "does not exist");
  EXPECT_EQ(sw.multicast_group(5).status().code(), ErrorCode::kNotFound);
}

TEST_F(Control, CloneSessions) {
  EXPECT_OK(sw.insert_clone_session(9, {{{4, 0}}, 64}));
  EXPECT_EQ(sw.clone_session(9)->packet_length, 64);
  expect(sw.insert_clone_session(9, {}), ErrorCode::kAlreadyExists, "clone session 9");
  expect(sw.insert_clone_session(40000, {}), ErrorCode::kInvalidArgument, "valid: 1 to 32767");
  EXPECT_OK(sw.modify_clone_session(9, {{{5, 0}}, 0}));
  EXPECT_THAT(sw.clone_sessions(), ElementsAre(9));
  EXPECT_OK(sw.delete_clone_session(9));
  EXPECT_EQ(sw.clone_session(9).status().code(), ErrorCode::kNotFound);
}

TEST_F(Control, RegistersAndCounters) {
  EXPECT_OK(sw.write_register("MyIngress.last_source", 3, big_endian(0x0102, 4)));
  EXPECT_EQ(*sw.read_register("MyIngress.last_source", 3), "\x01\x02");
  EXPECT_EQ(*sw.read_register("MyIngress.last_source", 4), Bytes(1, '\0'));
  expect(sw.write_register("MyIngress.last_source", 3, Bytes(5, '\x01')),
         ErrorCode::kInvalidArgument, "does not fit in 32 bits");
  expect(sw.write_register("MyIngress.last_source", 16, "\x01"), ErrorCode::kInvalidArgument,
         "MyIngress.last_source[16]: it has 16 cells");
  expect(sw.read_register("nothing", 0).status(), ErrorCode::kNotFound,
         "there are: MyIngress.last_source");

  EXPECT_OK(sw.write_counter("MyIngress.by_port", 2, {10, 1000}));
  EXPECT_EQ(*sw.read_counter("MyIngress.by_port", 2), (CounterValue{10, 1000}));
  expect(sw.read_counter("MyIngress.by_port", 99).status(), ErrorCode::kInvalidArgument,
         "16 cells");
  expect(sw.read_counter("MyIngress.route_hits", 0).status(), ErrorCode::kInvalidArgument,
         "direct");
  expect(sw.read_counter("x", 0).status(), ErrorCode::kNotFound, "no counter `x`");
}

TEST_F(Control, Ports) {
  expect(sw.set_port(512, {}), ErrorCode::kInvalidArgument, "valid ports: 0 to 511");
  expect(sw.set_port(510, {}), ErrorCode::kInvalidArgument, "reserved");
  expect(sw.set_port(511, {}), ErrorCode::kInvalidArgument, "reserved");
  expect(sw.set_port(1, {.rate_bps = -1}), ErrorCode::kInvalidArgument, "rate");
  expect(sw.set_port(1, {.delay_ns = -1}), ErrorCode::kInvalidArgument, "delay");
  expect(sw.remove_port(77), ErrorCode::kNotFound, "port 77 does not exist; ports: 1, 2, 3");
  EXPECT_OK(sw.remove_port(8));
  EXPECT_THAT(sw.ports(), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(sw.port_config(8).status().code(), ErrorCode::kNotFound);
}

TEST_F(Control, ANewProgramStartsAnew) {
  EXPECT_OK(sw.insert_entry(kHost, host(1, 3)));
  EXPECT_OK(sw.insert_multicast_group(5, {}));
  EXPECT_OK(sw.set_port(2, {.rate_bps = 1000}));
  sw.receive(1, FrameBuilder().pad_to(60).take(), 0);
  sw.set_program(load_program("probe"));
  EXPECT_TRUE(sw.multicast_groups().empty());
  EXPECT_EQ(sw.port_config(2)->rate_bps, 1000);
  EXPECT_EQ(sw.stats(1).rx_packets, 1u);
  expect(sw.insert_entry(kHost, host(1, 3)), ErrorCode::kNotFound, "there are: ");
}

}  // namespace
}  // namespace tiercast::engine
