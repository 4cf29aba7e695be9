// The rules come from the P4Runtime specification, "Client Arbitration and Controller Replication".
#include "dataplane/switch/p4runtime/arbitration.h"

#include <gtest/gtest.h>

#include "dataplane/switch/p4runtime/translate/errors.h"

namespace tiercast::vswitch {
namespace {

constexpr std::uint64_t kDevice = 3;

class ArbitrationTest : public ::testing::Test {
 protected:
  std::vector<ArbitrationNotice> update(StreamId stream, std::optional<std::uint64_t> low,
                                        const std::string& role = "",
                                        std::uint64_t device = kDevice) {
    std::optional<ElectionId> id;
    if (low) id = ElectionId{0, *low};
    return arbitration_.update(stream, device, role, id);
  }
  grpc::StatusCode refused(StreamId stream, std::optional<std::uint64_t> low,
                           const std::string& role = "", std::uint64_t device = kDevice) {
    try {
      update(stream, low, role, device);
    } catch (const RequestError& error) {
      return error.code();
    }
    return grpc::OK;
  }
  grpc::StatusCode write_as(std::optional<ElectionId> id, const std::string& role = "",
                            std::uint64_t device = kDevice) {
    try {
      arbitration_.require_primary(device, role, id);
    } catch (const RequestError& error) {
      return error.code();
    }
    return grpc::OK;
  }

  Arbitration arbitration_{kDevice};
};

TEST_F(ArbitrationTest, TheFirstControllerBecomesPrimary) {
  const auto notices = update(1, 5);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].code, grpc::OK);
  EXPECT_EQ(notices[0].highest, (ElectionId{0, 5}));
  EXPECT_TRUE(arbitration_.is_primary(1));
}

TEST_F(ArbitrationTest, ALowerElectionIdIsBackupAndOnlyItIsTold) {
  update(1, 5);
  const auto notices = update(2, 4);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].stream, 2u);
  EXPECT_EQ(notices[0].code, grpc::ALREADY_EXISTS);
  EXPECT_EQ(notices[0].highest, (ElectionId{0, 5}));
}

TEST_F(ArbitrationTest, AHigherElectionIdTakesOverAndIsToldLast) {
  update(1, 5);
  const auto notices = update(2, 6);
  ASSERT_EQ(notices.size(), 2u);
  EXPECT_EQ(notices[0].stream, 1u);
  EXPECT_EQ(notices[0].code, grpc::ALREADY_EXISTS);
  EXPECT_EQ(notices[1].stream, 2u);
  EXPECT_EQ(notices[1].code, grpc::OK);
  EXPECT_FALSE(arbitration_.is_primary(1));
}

TEST_F(ArbitrationTest, HighBitsOfTheElectionIdCountFirst) {
  arbitration_.update(1, kDevice, "", ElectionId{0, ~std::uint64_t{0}});
  arbitration_.update(2, kDevice, "", ElectionId{1, 0});
  EXPECT_TRUE(arbitration_.is_primary(2));
}

TEST_F(ArbitrationTest, NobodyIsPrimaryAfterItLeavesUntilAnIdAtLeastAsHigh) {
  update(1, 5);
  update(2, 4);
  const auto left = arbitration_.disconnect(1);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].stream, 2u);
  EXPECT_EQ(left[0].code, grpc::NOT_FOUND);
  EXPECT_TRUE(arbitration_.primaries().empty());
  EXPECT_EQ(update(3, 3).at(0).code, grpc::NOT_FOUND);
  EXPECT_EQ(update(4, 5).back().code, grpc::OK);
}

TEST_F(ArbitrationTest, ABackupThatLeavesIsNoNews) {
  update(1, 5);
  update(2, 4);
  EXPECT_TRUE(arbitration_.disconnect(2).empty());
  EXPECT_TRUE(arbitration_.disconnect(99).empty());
}

TEST_F(ArbitrationTest, ThePrimaryMayStepDown) {
  update(1, 5);
  update(2, 3);
  const auto notices = update(1, 2);
  ASSERT_EQ(notices.size(), 2u);
  EXPECT_EQ(notices[0].code, grpc::NOT_FOUND);
  EXPECT_EQ(notices[1].code, grpc::NOT_FOUND);
  EXPECT_EQ(notices[0].highest, (ElectionId{0, 5}));
}

TEST_F(ArbitrationTest, WithoutElectionIdNobodyIsEverPrimary) {
  const auto notices = update(1, std::nullopt);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].code, grpc::NOT_FOUND);
  EXPECT_FALSE(notices[0].highest.has_value());
  EXPECT_EQ(refused(2, std::nullopt), grpc::OK);  // unset ids do not clash
}

TEST_F(ArbitrationTest, AnElectionIdInUseIsInvalid) {
  update(1, 5);
  EXPECT_EQ(refused(2, 5), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(refused(1, 5), grpc::OK);  // its own id again
  update(2, 4);
  EXPECT_EQ(refused(1, 4), grpc::INVALID_ARGUMENT);
  EXPECT_TRUE(arbitration_.is_primary(1));
}

TEST_F(ArbitrationTest, AnUnknownDeviceIsNotFound) {
  EXPECT_EQ(refused(1, 5, "", 4), grpc::NOT_FOUND);
}

TEST_F(ArbitrationTest, ALiveStreamKeepsItsDeviceAndRole) {
  update(1, 5);
  EXPECT_EQ(refused(1, 5, "", 4), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(refused(1, 5, "monitor"), grpc::FAILED_PRECONDITION);
}

TEST_F(ArbitrationTest, RolesHaveAPrimaryEach) {
  update(1, 5);
  update(2, 1, "monitor");
  EXPECT_EQ(arbitration_.primaries(), (std::vector<StreamId>{1, 2}));
  EXPECT_EQ(write_as(ElectionId{0, 5}), grpc::OK);
  EXPECT_EQ(write_as(ElectionId{0, 1}, "monitor"), grpc::OK);
  EXPECT_EQ(write_as(ElectionId{0, 5}, "monitor"), grpc::PERMISSION_DENIED);
}

TEST_F(ArbitrationTest, OnlyThePrimaryMayWrite) {
  EXPECT_EQ(write_as(ElectionId{0, 5}), grpc::PERMISSION_DENIED);
  update(1, 5);
  EXPECT_EQ(write_as(ElectionId{0, 4}), grpc::PERMISSION_DENIED);
  EXPECT_EQ(write_as(std::nullopt), grpc::PERMISSION_DENIED);
  EXPECT_EQ(write_as(ElectionId{0, 5}, "", 4), grpc::NOT_FOUND);
  EXPECT_EQ(write_as(ElectionId{0, 5}, "nobody"), grpc::NOT_FOUND);
  arbitration_.disconnect(1);
  EXPECT_EQ(write_as(ElectionId{0, 5}), grpc::PERMISSION_DENIED);
}

TEST_F(ArbitrationTest, StreamsOfARoleAreLimited) {
  for (StreamId stream = 1; stream <= Arbitration::kMaxStreamsPerRole; ++stream)
    update(stream, stream);
  EXPECT_EQ(refused(1000, 1000), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused(1000, 1000, "other"), grpc::OK);
}

TEST_F(ArbitrationTest, RolesAreLimited) {
  StreamId stream = 1;
  for (; stream <= Arbitration::kMaxRoles; ++stream) update(stream, stream, std::to_string(stream));
  EXPECT_EQ(refused(stream, 1000, "other"), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused(stream, 1000, "1"), grpc::OK);
}

TEST_F(ArbitrationTest, RolesThatNeverHadAnElectionIdAreForgotten) {
  for (StreamId stream = 1; stream <= Arbitration::kMaxRoles; ++stream) {
    update(stream, std::nullopt, std::to_string(stream));
    arbitration_.disconnect(stream);
  }
  EXPECT_EQ(refused(1000, 1000, "other"), grpc::OK);
}

}  // namespace
}  // namespace tiercast::vswitch
