#include "transport/status_message.h"

#include "support/expect_error.h"

namespace cohort::internal {
namespace {

Status sent(const Status& status, std::string_view self = "/job:ps/task:0") {
  Message message;
  MessageWriter writer(message);
  write_status(status, self, writer);
  MessageReader reader(message, "a status");
  Status back = read_status(reader);
  reader.expect_end();
  return back;
}

Status chain(int causes) {
  Status status{Code::Internal, "root"};
  for (int i = 1; i <= causes; ++i) {
    status = {Code::Aborted, std::to_string(i), {}, false, std::make_shared<const Status>(status)};
  }
  return status;
}

TEST(StatusMessage, ComesBackWhole) {
  const Status root{Code::DataLoss, "a\0b", "/job:worker/task:1"};
  const Status status{
      Code::Aborted, "[Run] step 3", {}, true, std::make_shared<const Status>(root)};
  const Status back = sent(status);
  EXPECT_EQ(back.code, Code::Aborted);
  EXPECT_EQ(back.message, "[Run] step 3");
  EXPECT_TRUE(back.derived);
  EXPECT_EQ(back.root().code, Code::DataLoss);
  EXPECT_EQ(back.root().origin, "/job:worker/task:1");
  EXPECT_FALSE(back.root().derived);
  EXPECT_TRUE(sent({}).ok());
}

TEST(StatusMessage, AnEmptyOriginIsTheSender) {
  EXPECT_EQ(sent({Code::Internal, "x"}, "/job:ps/task:2").origin, "/job:ps/task:2");
}

TEST(StatusMessage, LongTextsAreCutBetweenCharacters) {
  std::string text;
  while (text.size() < 10000) text += "\u00e4";
  const std::string back = sent({Code::Internal, text}).message;
  EXPECT_LE(back.size(), kMaxStatusText);
  EXPECT_GT(back.size(), kMaxStatusText - 3);
  ASSERT_TRUE(back.ends_with("... (cut)"));
  EXPECT_EQ((back.size() - std::string("... (cut)").size()) % 2, 0u);
}

TEST(StatusMessage, LongChainsKeepTheirRoot) {
  const Status back = sent(chain(1000));
  EXPECT_EQ(back.message, "1000");
  EXPECT_EQ(back.root().message, "root");
  int length = 0;
  for (const Status* link = &back; link != nullptr; link = link->cause.get()) ++length;
  EXPECT_EQ(length, kMaxStatusCauses);
}

TEST(StatusMessage, EverythingIsChecked) {
  const auto read = [](std::string header) {
    const Message message{std::move(header)};
    MessageReader reader(message, "a status");
    return read_status(reader);
  };
  EXPECT_ERROR(Code::DataLoss, "a status is missing", read({'\0', 1}));
  EXPECT_ERROR(Code::DataLoss, "17 is more than the 16", read("\x11"));
  EXPECT_ERROR(Code::DataLoss, "17 is more than the 16", read("\x01\x11"));
  EXPECT_ERROR(Code::DataLoss, "ends where", read("\x01\x10"));
}

}  // namespace
}  // namespace cohort::internal
