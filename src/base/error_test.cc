#include "cohort/error.h"

#include <gtest/gtest.h>

#include <new>
#include <sstream>

#include "base/raise.h"

namespace cohort {
namespace {

template <typename T>
std::string printed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

TEST(Code, NumbersAreThoseOfGrpc) {
  EXPECT_EQ(static_cast<int>(Code::Ok), 0);
  EXPECT_EQ(static_cast<int>(Code::Cancelled), 1);
  EXPECT_EQ(static_cast<int>(Code::InvalidArgument), 3);
  EXPECT_EQ(static_cast<int>(Code::ResourceExhausted), 8);
  EXPECT_EQ(static_cast<int>(Code::Unavailable), 14);
  EXPECT_EQ(static_cast<int>(Code::Unauthenticated), 16);
}

TEST(Code, PrintsItsNameOrItsNumber) {
  EXPECT_EQ(to_string(Code::Ok), "OK");
  EXPECT_EQ(to_string(Code::InvalidArgument), "INVALID_ARGUMENT");
  EXPECT_EQ(to_string(Code::Unauthenticated), "UNAUTHENTICATED");
  EXPECT_EQ(to_string(static_cast<Code>(42)), "CODE_42");
  EXPECT_EQ(printed(Code::DataLoss), "DATA_LOSS");
}

TEST(Status, IsSuccessUnlessTold) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_FALSE(status.derived);
  EXPECT_EQ(status.to_string(), "OK");
  EXPECT_EQ(&status.root(), &status);
}

TEST(Status, PrintsCodeMessageOriginAndEachCauseOnOneLine) {
  const auto root = std::make_shared<const Status>(
      Status{.code = Code::NotFound, .message = "no file 'x'", .origin = "/job:ps/task:1"});
  const auto middle = std::make_shared<const Status>(Status{.code = Code::Aborted, .cause = root});
  const Status status{
      .code = Code::Cancelled, .message = "step 3", .derived = true, .cause = middle};
  EXPECT_EQ(printed(status),
            "CANCELLED: step 3; caused by ABORTED; caused by NOT_FOUND: no file 'x' (from "
            "/job:ps/task:1)");
  EXPECT_EQ(&status.root(), root.get());
}

TEST(Error, HoldsTheStatusAndSaysItInWhat) {
  const Error error(
      Status{.code = Code::Unavailable, .message = "gone", .origin = "/job:w/task:2"});
  EXPECT_EQ(error.code(), Code::Unavailable);
  EXPECT_EQ(error.message(), "gone");
  EXPECT_EQ(error.origin(), "/job:w/task:2");
  EXPECT_STREQ(error.what(), "UNAVAILABLE: gone (from /job:w/task:2)");
  EXPECT_EQ(Error(Code::Internal, "odd").status().message, "odd");
}

TEST(ThrowIfError, ThrowsAllButSuccess) {
  EXPECT_NO_THROW(throw_if_error({}));
  EXPECT_THROW(throw_if_error({.code = Code::Aborted}), Error);
}

TEST(Raise, FormatsTheMessage) {
  const Status status =
      capture_status([] { internal::raise(Code::NotFound, "[Open] no file '{}'", "a.txt"); });
  EXPECT_EQ(status.code, Code::NotFound);
  EXPECT_EQ(status.message, "[Open] no file 'a.txt'");
}

TEST(CaptureStatus, KeepsEverythingOfAnError) {
  const auto cause = std::make_shared<const Status>(Status{.code = Code::NotFound});
  const Status status = capture_status([&] {
    throw Error(Status{.code = Code::Aborted, .origin = "/job:a", .derived = true, .cause = cause});
  });
  EXPECT_EQ(status.code, Code::Aborted);
  EXPECT_EQ(status.origin, "/job:a");
  EXPECT_TRUE(status.derived);
  EXPECT_EQ(status.cause, cause);
}

TEST(CaptureStatus, TurnsOtherExceptionsIntoStatuses) {
  EXPECT_TRUE(capture_status([] {}).ok());
  EXPECT_EQ(capture_status([] { throw std::bad_alloc(); }).code, Code::ResourceExhausted);
  const Status known = capture_status([] { throw std::logic_error("bad"); });
  EXPECT_EQ(known.code, Code::Unknown);
  EXPECT_EQ(known.message, "bad");
  EXPECT_EQ(capture_status([] { throw 3; }).code, Code::Unknown);
}

// As torch's exceptions have it.
TEST(CaptureStatus, LeavesOutABacktrace) {
  const Status status = capture_status([] {
    throw std::runtime_error(
        "two\nlines\nException raised from check at norm.cpp:81 (most recent call first):\n"
        "frame #0: c10::Error::Error()\n");
  });
  EXPECT_EQ(status.message, "two\nlines");
}

}  // namespace
}  // namespace cohort
