// Vectors: P4Runtime specification, "Bytestrings", tables of valid and invalid encodings.
#include "dataplane/switch/p4runtime/translate/bytestring.h"

#include <gtest/gtest.h>

#include "dataplane/switch/p4runtime/translate/errors.h"

namespace tiercast::vswitch {
namespace {

using namespace std::string_literals;

bool out_of_range(const std::string& bytes, unsigned width) {
  try {
    canonical(bytes, width, "value");
  } catch (const RequestError& error) {
    return error.code() == grpc::OUT_OF_RANGE;
  }
  return false;
}

TEST(Bytestring, ValidEncodingsBecomeTheShortest) {
  EXPECT_EQ(canonical("\x63"s, 8, ""), "\x63"s);
  EXPECT_EQ(canonical("\x00\x63"s, 16, ""), "\x63"s);
  EXPECT_EQ(canonical("\x30\x64"s, 16, ""), "\x30\x64"s);
  EXPECT_EQ(canonical("\x00\x30\x64"s, 16, ""), "\x30\x64"s);
  EXPECT_EQ(canonical("\x00\x00\x63"s, 12, ""), "\x63"s);
  EXPECT_EQ(canonical("\x00\x00"s, 16, ""), "\x00"s);
  EXPECT_EQ(canonical("\x01\xff"s, 9, ""), "\x01\xff"s);
}

TEST(Bytestring, InvalidEncodingsAreOutOfRange) {
  EXPECT_TRUE(out_of_range("\x01\x63"s, 8));
  EXPECT_TRUE(out_of_range("", 8));
  EXPECT_TRUE(out_of_range("\x01\x00\x63"s, 16));
  EXPECT_TRUE(out_of_range("\x10\x63"s, 12));
  EXPECT_TRUE(out_of_range("\x01\x00\x63"s, 12));
  EXPECT_TRUE(out_of_range("\x00\x40\x63"s, 12));
  EXPECT_TRUE(out_of_range("\x02\x00"s, 9));
}

TEST(Bytestring, Integers) {
  EXPECT_EQ(encode_uint(0), "\x00"s);
  EXPECT_EQ(encode_uint(510), "\x01\xfe"s);
  EXPECT_EQ(encode_uint(~std::uint64_t{0}), std::string(8, '\xff'));
  EXPECT_EQ(decode_uint("\x00\x01\xfe"s, 9, ""), 510u);
}

TEST(Bytestring, SignedIntegersAreTwosComplement) {
  EXPECT_EQ(canonical_int("\x63"s, 8), "\x63"s);
  EXPECT_EQ(canonical_int("\xff"s, 8), "\xff"s);           // -1
  EXPECT_EQ(canonical_int("\x0d\x1d"s, 12), "\xfd\x1d"s);  // -739
  EXPECT_EQ(canonical_int("\xc8"s, 16), "\x00\xc8"s);      // 200
  EXPECT_EQ(canonical_int("\xff\xc8"s, 16), "\xc8"s);      // -56
  EXPECT_EQ(canonical_int("\xff\x7f"s, 16), "\xff\x7f"s);  // -129
  EXPECT_EQ(canonical_int("\x00"s, 32), "\x00"s);
  EXPECT_EQ(canonical_int("\x01"s, 1), "\xff"s);  // -1
  EXPECT_EQ(canonical_int(std::string(16, '\xff'), 128), "\xff"s);
}

TEST(Bytestring, TrailingZeros) {
  EXPECT_EQ(trailing_zeros("\x0a\x00\x00\x00"s, 32), 25u);
  EXPECT_EQ(trailing_zeros("\x01"s, 32), 0u);
  EXPECT_EQ(trailing_zeros("\x00"s, 32), 32u);
}

TEST(Bytestring, MaskedByAlignsTheLastBytes) {
  EXPECT_TRUE(masked_by("\x10"s, "\xff\xf0"s));
  EXPECT_FALSE(masked_by("\x11"s, "\xff\xf0"s));
  EXPECT_FALSE(masked_by("\x01\x00"s, "\xff"s));
}

}  // namespace
}  // namespace tiercast::vswitch
