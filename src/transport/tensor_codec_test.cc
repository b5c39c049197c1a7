#include <cohort/cohort.h>

#include <cstring>

#include "support/expect_error.h"
#include "tensor/body.h"
#include "tensor/memory.h"
#include "transport/message_codec.h"

namespace cohort::internal {
namespace {

Message written(const std::vector<Tensor>& tensors) {
  Message message;
  MessageWriter{message}(tensors);
  return message;
}

std::vector<Tensor> read(const Message& message) {
  MessageReader reader(message, "tensors");
  return decode_rest<std::vector<Tensor>>(reader);
}

void expect_same(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.dtype(), b.dtype());
  ASSERT_EQ(a.shape(), b.shape());
  if (a.dtype() == kString) {
    EXPECT_EQ(strings(a), strings(b));
  } else if (a.size() > 0) {
    EXPECT_EQ(std::memcmp(element_bytes(a), element_bytes(b), a.size() * size_of(a.dtype())), 0);
  }
}

Tensor counting(DType dtype, const Shape& shape) {
  WritableTensor made = allocate_tensor(dtype, shape);
  const int64_t bytes = shape.num_elements() * size_of(dtype);
  for (int64_t i = 0; i < bytes; ++i) made.data[i] = std::byte(dtype == kBool ? i % 2 : i % 251);
  return made.tensor;
}

TEST(TensorMessage, EveryDTypeAndShapeComesBack) {
  std::vector<Tensor> tensors;
  for (int dtype = 0; dtype < static_cast<int>(kString); ++dtype) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3, 0, 2}, Shape{1}, Shape{7}, Shape{13, 17},
                               Shape{1, 2, 1, 2, 1, 2, 1, 2}}) {
      tensors.push_back(counting(static_cast<DType>(dtype), shape));
    }
  }
  const std::vector<Tensor> back = read(written(tensors));
  ASSERT_EQ(back.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) expect_same(tensors[i], back[i]);
}

TEST(TensorMessage, StringsComeBack) {
  const std::string with_nul("a\0b\0", 4);
  const std::vector<Tensor> tensors{Tensor(with_nul),
                                    Tensor::from(std::vector<std::string>{}, Shape{0, 3}),
                                    Tensor({"", "\xff\xfe", "x"}), Tensor(std::string(100000, 'y')),
                                    Tensor::from(std::vector<std::string>(1000), Shape{10, 100})};
  const std::vector<Tensor> back = read(written(tensors));
  for (size_t i = 0; i < tensors.size(); ++i) expect_same(tensors[i], back[i]);
}

TEST(TensorMessage, NothingComesBackAsNothing) {
  const std::vector<Tensor> back = read(written({Tensor(), Tensor(1.f)}));
  EXPECT_FALSE(back[0].defined());
  EXPECT_EQ(back[1].to<float>(), 1.f);
}

TEST(TensorMessage, DenseMemoryIsSharedBothWays) {
  const Tensor tensor = counting(kFloat32, {100});
  const Message message = written({tensor});
  ASSERT_EQ(message.payloads.size(), 1u);
  EXPECT_EQ(message.payloads[0].bytes.data(), element_bytes(tensor));
  EXPECT_EQ(element_bytes(read(message)[0]), element_bytes(tensor));
}

TEST(TensorMessage, ATensorKeepsItsPayload) {
  std::weak_ptr<const void> memory;
  Tensor back;
  {
    const Message message = written({counting(kFloat32, {100})});
    memory = message.payloads[0].owner;
    back = read(message)[0];
  }
  EXPECT_FALSE(memory.expired());
  EXPECT_EQ(back.at<float>({0}), counting(kFloat32, {100}).at<float>({0}));
  back = Tensor();
  EXPECT_TRUE(memory.expired());
}

TEST(TensorMessage, ViewsAreMadeDense) {
  const Tensor matrix = counting(kInt32, {20, 30});
  const Tensor turned = transpose(matrix);
  expect_same(read(written({turned}))[0], turned);
  expect_same(read(written({matrix[3]}))[0], matrix[3]);
}

TEST(TensorMessage, BoolsAreZeroOrOne) {
  Message message = written({counting(kBool, {100})});
  auto bytes = std::make_shared<std::vector<std::byte>>(100, std::byte{0x55});
  message.payloads[0] = {*bytes, bytes};
  EXPECT_EQ(*element_bytes(read(message)[0]), std::byte{1});
}

TEST(TensorMessage, HandlesAndSymbolsAreRefused) {
  EXPECT_ERROR(Code::InvalidArgument, "resource", written({make_resource(nullptr)}));
  Graph graph;
  const auto building = graph.as_default();
  EXPECT_ERROR(Code::FailedPrecondition, "sending", written({placeholder(kFloat32, {2})}));
}

Message with_numbers(const std::vector<uint64_t>& numbers) {
  Message message;
  MessageWriter writer(message);
  for (const uint64_t number : numbers) writer.number(number);
  return message;
}

TEST(TensorMessage, EveryLengthIsChecked) {
  EXPECT_ERROR(Code::DataLoss, "parts are announced", read(with_numbers({1000})));
  EXPECT_ERROR(Code::DataLoss, "12 is more than", read(with_numbers({1, 12})));
  EXPECT_ERROR(Code::DataLoss, "9 is more than", read(with_numbers({1, 3, 9})));
  const uint64_t huge = uint64_t{1} << 62;
  EXPECT_ERROR(Code::DataLoss, "elements than fit", read(with_numbers({1, 3, 2, huge, huge})));
  EXPECT_ERROR(Code::DataLoss, "bytes than fit", read(with_numbers({1, 3, 1, huge})));
  EXPECT_ERROR(Code::DataLoss, "0 payloads", read(with_numbers({1, 3, 1, 1000})));
  EXPECT_ERROR(Code::DataLoss, "parts are announced", read(with_numbers({1, 11, 1, 1000})));
  EXPECT_ERROR(Code::DataLoss, "too long",
               read(with_numbers({1, 11, 1, 2, UINT64_MAX, UINT64_MAX})));
  Message message = written({counting(kFloat32, {100})});
  message.payloads[0].bytes = message.payloads[0].bytes.first(399);
  EXPECT_ERROR(Code::DataLoss, "400 bytes comes with 399", read(message));
}

}  // namespace
}  // namespace cohort::internal
