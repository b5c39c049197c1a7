#include "transport/message_codec.h"

#include "support/expect_error.h"

namespace cohort::internal {
namespace {

enum class Colour : uint8_t { Red, Green };
enum class Policy : int8_t { Off = -1, On = 0 };
constexpr uint64_t kMaxCount = 100;

struct Point {
  int x = 0;
  int y = 0;
};
void list_fields(auto& fields, MaybeConst<Point> auto& m) { fields(m.x, either_sign(m.y)); }

struct Sample {
  static constexpr auto kKind = Colour::Green;
  uint64_t count = 0;
  Colour colour = Colour::Red;
  Policy policy = Policy::On;
  bool flag = false;
  double seconds = 0;
  std::chrono::milliseconds limit{};
  std::string text = {};
  Buffer payload = {};
  Status status = {};
  Shape shape = {};
  std::optional<uint64_t> bytes = std::nullopt;
  std::vector<Point> points = {};
  std::map<std::string, std::string> names = {};
  static void list_fields(auto& fields, auto& m) {
    fields(at_most(m.count, kMaxCount), at_most(m.colour, Colour::Green),
           between(m.policy, Policy::Off, Policy::On), m.flag, m.seconds, m.limit, m.text,
           m.payload, m.status, m.shape, m.bytes, m.points, m.names);
    fields.check(m.points.size() < 3, "too many points");
  }
};

Sample decode_sample(const Message& message) {
  MessageReader reader(message, "a sample");
  EXPECT_EQ(reader.number(), static_cast<uint64_t>(Colour::Green));
  return decode_rest<Sample>(reader);
}

TEST(MessageCodec, EveryFieldArrivesAsItWasSent) {
  static constexpr std::byte kBytes[3] = {};
  const Sample sent{.count = kMaxCount,
                    .colour = Colour::Green,
                    .policy = Policy::Off,
                    .flag = true,
                    .seconds = 1.25,
                    .limit = std::chrono::milliseconds(7),
                    .text = std::string("a\0b", 3),
                    .payload = {.bytes = kBytes},
                    .status = {.code = Code::Aborted, .message = "why"},
                    .shape = {2, Shape::kUnknownDim},
                    .bytes = 5,
                    .points = {{.x = 1, .y = -2}, {}},
                    .names = {{"a", "b"}, {"c", ""}}};
  const Sample got = decode_sample(encode(sent, "the sender"));
  EXPECT_EQ(got.count, kMaxCount);
  EXPECT_EQ(got.colour, Colour::Green);
  EXPECT_EQ(got.policy, Policy::Off);
  EXPECT_TRUE(got.flag);
  EXPECT_EQ(got.seconds, 1.25);
  EXPECT_EQ(got.limit, sent.limit);
  EXPECT_EQ(got.text, sent.text);
  EXPECT_EQ(got.payload.bytes.data(), kBytes);
  EXPECT_EQ(got.status.message, "why");
  EXPECT_EQ(got.status.origin, "the sender");
  EXPECT_EQ(got.shape, sent.shape);
  EXPECT_EQ(got.bytes, sent.bytes);
  ASSERT_EQ(got.points.size(), 2u);
  EXPECT_EQ(got.points[0].y, -2);
  EXPECT_EQ(got.names, sent.names);
}

TEST(MessageCodec, WhatIsAbsentTakesOneByte) {
  Message message;
  MessageWriter{message}(std::optional<uint64_t>());
  EXPECT_EQ(message.header, std::string(1, '\0'));
}

TEST(MessageCodec, ANegativeTimeLimitIsSentAsZero) {
  Message message;
  MessageWriter{message}(std::chrono::milliseconds(-5));
  EXPECT_EQ(message.header, std::string(1, '\0'));
}

TEST(MessageCodec, LimitsAndChecksAreKeptByTheDecoder) {
  EXPECT_ERROR(Code::DataLoss, "a sample: 101 is more than the 100 allowed here",
               decode_sample(encode(Sample{.count = kMaxCount + 1, .payload = {}})));
  EXPECT_ERROR(Code::DataLoss, "2 is more than the 1 allowed here",
               decode_sample(encode(Sample{.colour = static_cast<Colour>(2), .payload = {}})));
  for (const int policy : {-2, 1}) {
    EXPECT_ERROR(
        Code::DataLoss, "is more than the 1 allowed here",
        decode_sample(encode(Sample{.policy = static_cast<Policy>(policy), .payload = {}})));
  }
  EXPECT_ERROR(Code::DataLoss, "too many points",
               decode_sample(encode(Sample{.points = {{}, {}, {}}})));
  EXPECT_ERROR(Code::DataLoss, "allowed here", decode_sample(encode(Sample{.points = {{-1, 0}}})));
}

template <typename T>
T decode_numbers(std::initializer_list<uint64_t> numbers) {
  Message message;
  MessageWriter writer(message);
  for (const uint64_t number : numbers) writer.number(number);
  MessageReader reader(message, "numbers");
  return decode_rest<T>(reader);
}

TEST(MessageCodec, NumbersThatDoNotFitTheirTypeAreRefused) {
  EXPECT_ERROR(Code::DataLoss, "numbers: 2147483648 is more than", decode_numbers<int>({1u << 31}));
  EXPECT_ERROR(Code::DataLoss, "2 is more than the 1", decode_numbers<bool>({2}));
  EXPECT_ERROR(Code::DataLoss, "more than", decode_numbers<int64_t>({UINT64_MAX}));
  EXPECT_ERROR(Code::DataLoss, "more than",
               decode_numbers<std::chrono::milliseconds>({uint64_t{1} << 41}));
  EXPECT_ERROR(Code::DataLoss, "9 is more than the 8", decode_numbers<Shape>({9}));
}

TEST(MessageCodec, ACountBeyondTheBytesThatFollowIsRefused) {
  EXPECT_ERROR(Code::DataLoss, "1000 parts are announced",
               decode_numbers<std::vector<uint64_t>>({1000, 1}));
  EXPECT_ERROR(Code::DataLoss, "1000 parts are announced",
               (decode_numbers<std::map<uint64_t, uint64_t>>({1000, 1})));
  EXPECT_ERROR(Code::DataLoss, "1 bytes and 0 payloads are left over",
               decode_numbers<std::vector<uint64_t>>({1, 1, 1}));
}

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

Status sent(const Status& status, std::string_view self = "/job:ps/task:0") {
  Message message;
  MessageWriter(message, self)(status);
  MessageReader reader(message, "a status");
  return decode_rest<Status>(reader);
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
    return decode_next<Status>(reader);
  };
  EXPECT_ERROR(Code::DataLoss, "a status is missing", read({'\0', 1}));
  EXPECT_ERROR(Code::DataLoss, "17 is more than the 16", read("\x11"));
  EXPECT_ERROR(Code::DataLoss, "17 is more than the 16", read("\x01\x11"));
  EXPECT_ERROR(Code::DataLoss, "ends where", read("\x01\x10"));
}

}  // namespace
}  // namespace cohort::internal
