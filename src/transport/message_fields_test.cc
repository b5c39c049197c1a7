#include "transport/message_fields.h"

#include "support/expect_error.h"

namespace cohort::internal {
namespace {

TEST(MessageFields, ComeBackInOrder) {
  Message message;
  const std::vector<uint64_t> numbers{0, 1, 127, 128, 16384, UINT32_MAX, UINT64_MAX};
  MessageWriter writer(message);
  for (const uint64_t number : numbers) writer.number(number);
  writer.text("").text(std::string_view("a\0b", 3)).payload({});
  MessageReader reader(message, "a test");
  for (const uint64_t number : numbers) EXPECT_EQ(reader.number(), number);
  EXPECT_EQ(reader.text(), "");
  EXPECT_EQ(reader.text(), std::string_view("a\0b", 3));
  EXPECT_FALSE(reader.at_end());
  reader.payload();
  reader.expect_end();
}

TEST(MessageFields, SmallNumbersTakeOneByte) {
  Message message;
  MessageWriter(message).number(0).number(127);
  EXPECT_EQ(message.header.size(), 2u);
}

MessageReader reader_of(const Message& message) { return {message, "a test"}; }

TEST(MessageFields, EveryLengthIsChecked) {
  const Message empty;
  EXPECT_ERROR(Code::DataLoss, "a test: it ends where a number", reader_of(empty).number());
  EXPECT_ERROR(Code::DataLoss, "has 0 payloads", reader_of(empty).payload());
  const Message cut{"\x85"};
  EXPECT_ERROR(Code::DataLoss, "it ends where a number", reader_of(cut).number());
  const Message endless{std::string(11, '\xff')};
  EXPECT_ERROR(Code::DataLoss, "64 bits", reader_of(endless).number());
  const Message too_large{"\x05x"};
  EXPECT_ERROR(Code::DataLoss, "5 is more than the 4", reader_of(too_large).number(4));
  EXPECT_ERROR(Code::DataLoss, "5 parts are announced and 1 bytes", reader_of(too_large).text());
  EXPECT_ERROR(Code::DataLoss, "2 bytes and 0 payloads are left",
               reader_of(too_large).expect_end());
}

}  // namespace
}  // namespace cohort::internal
