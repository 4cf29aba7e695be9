#include "dataplane/switch/p4runtime/packet_io.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "dataplane/switch/p4runtime/translate/errors.h"

namespace tiercast::vswitch {
namespace {

using namespace std::string_literals;

p4::config::v1::P4Info p4info(const std::string& text) {
  p4::config::v1::P4Info info;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &info));
  return info;
}

PacketIo nine_bits_and_pad() {
  return PacketIo(p4info(R"(
    controller_packet_metadata {
      preamble { name: "packet_in" }
      metadata { id: 1 name: "ingress_port" bitwidth: 9 }
      metadata { id: 2 name: "pad" bitwidth: 7 }
    }
    controller_packet_metadata {
      preamble { name: "packet_out" }
      metadata { id: 1 name: "egress_port" bitwidth: 9 }
      metadata { id: 2 name: "pad" bitwidth: 7 }
    })"));
}

void add(p4::v1::PacketOut& packet, std::uint32_t id, const std::string& value) {
  auto& metadata = *packet.add_metadata();
  metadata.set_metadata_id(id);
  metadata.set_value(value);
}

grpc::StatusCode refused(const p4::v1::PacketOut& packet) {
  try {
    nine_bits_and_pad().encode(packet);
  } catch (const RequestError& error) {
    return error.code();
  }
  return grpc::OK;
}

TEST(PacketIo, MetadataBecomesTheHeaderInFrontOfThePayload) {
  p4::v1::PacketOut packet;
  packet.set_payload("frame");
  add(packet, 2, "\x00"s);  // the order of metadata does not matter
  add(packet, 1, "\x01\xfe"s);
  // 510 = 1 1111 1110, then 7 zero bits.
  EXPECT_EQ(nine_bits_and_pad().encode(packet), "\xff\x00"s + "frame");
}

TEST(PacketIo, TheHeaderBecomesCanonicalMetadata) {
  const std::string frame = "\x01\x80"s + "frame";  // port 3
  const auto packet = nine_bits_and_pad().decode(std::as_bytes(std::span(frame)));
  EXPECT_EQ(packet.payload(), "frame");
  ASSERT_EQ(packet.metadata_size(), 2);
  EXPECT_EQ(packet.metadata(0).metadata_id(), 1u);
  EXPECT_EQ(packet.metadata(0).value(), "\x03"s);
  EXPECT_EQ(packet.metadata(1).value(), "\x00"s);
}

TEST(PacketIo, EveryPortComesBack) {
  const PacketIo io = nine_bits_and_pad();
  for (unsigned port = 0; port < 512; ++port) {
    p4::v1::PacketOut out;
    add(out, 1, {static_cast<char>(port >> 8), static_cast<char>(port & 0xff)});
    add(out, 2, "\x55"s);
    const std::string frame = io.encode(out);
    const auto in = io.decode(std::as_bytes(std::span(frame)));
    unsigned value = 0;
    for (const char byte : in.metadata(0).value())
      value = value << 8 | static_cast<unsigned char>(byte);
    EXPECT_EQ(value, port);
    EXPECT_EQ(in.metadata(1).value(), "\x55"s);
  }
}

TEST(PacketIo, WrongMetadataIsRefused) {
  p4::v1::PacketOut missing;
  add(missing, 1, "\x01");
  EXPECT_EQ(refused(missing), grpc::INVALID_ARGUMENT);

  p4::v1::PacketOut unknown = missing;
  add(unknown, 2, "\x01");
  EXPECT_EQ(refused(unknown), grpc::OK);
  add(unknown, 7, "\x01");
  EXPECT_EQ(refused(unknown), grpc::INVALID_ARGUMENT);

  p4::v1::PacketOut twice = missing;
  add(twice, 1, "\x02");
  EXPECT_EQ(refused(twice), grpc::INVALID_ARGUMENT);

  p4::v1::PacketOut too_large;
  add(too_large, 1, "\x02\x00"s);
  add(too_large, 2, "\x00"s);
  EXPECT_EQ(refused(too_large), grpc::OUT_OF_RANGE);
}

TEST(PacketIo, AFrameShorterThanTheHeaderIsRefused) {
  const std::string frame = "\x01";
  EXPECT_THROW(nine_bits_and_pad().decode(std::as_bytes(std::span(frame))), RequestError);
}

TEST(PacketIo, WithoutControllerHeadersPayloadsAreFrames) {
  const PacketIo io{p4::config::v1::P4Info()};
  p4::v1::PacketOut packet;
  packet.set_payload("frame");
  EXPECT_EQ(io.encode(packet), "frame");
}

TEST(PacketIo, AHeaderThatIsGivenTwiceIsRefused) {
  constexpr const char* kOne = R"(
    controller_packet_metadata {
      preamble { name: "packet_out" }
      metadata { id: 1 name: "egress_port" bitwidth: 16 }
    })";
  EXPECT_NO_THROW(PacketIo(p4info(kOne)));
  EXPECT_THROW(PacketIo(p4info(std::string(kOne) + kOne)), RequestError);
}

TEST(PacketIo, AFieldHasUpTo2048Bits) {
  const auto with = [](const char* bits) {
    return p4info(std::string(R"(
      controller_packet_metadata {
        preamble { name: "packet_in" }
        metadata { id: 1 name: "wide" bitwidth: )") +
                  bits + "} }");
  };
  EXPECT_NO_THROW(PacketIo(with("2048")));
  EXPECT_THROW(PacketIo(with("2056")), RequestError);
  EXPECT_THROW(PacketIo(with("2147483640")), RequestError);
}

TEST(PacketIo, AHeaderThatIsNotWholeBytesIsRefused) {
  EXPECT_THROW(PacketIo(p4info(R"(
    controller_packet_metadata {
      preamble { name: "packet_in" }
      metadata { id: 1 name: "ingress_port" bitwidth: 9 }
    })")),
               RequestError);
}

}  // namespace
}  // namespace tiercast::vswitch
