#include "cohort/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "support/expect_error.h"
#include "tensor/aten.h"

namespace cohort {
namespace {

// A tensor without values, as a graph makes them.
Tensor make_symbol(DType dtype, const Shape& shape) {
  auto made = std::make_shared<internal::SymbolBody>();
  made->kind = internal::TensorBody::Kind::Symbol;
  made->dtype = dtype;
  made->shape = shape;
  return internal::TensorAccess::make(std::move(made));
}

class EmptyResource : public internal::Resource {};

TEST(Tensor, HoldsNothingByDefault) {
  const Tensor tensor;
  EXPECT_FALSE(tensor.defined());
  EXPECT_FALSE(tensor.is_symbolic());
  EXPECT_ERROR(Code::FailedPrecondition, "holds nothing", tensor.dtype());
  EXPECT_ERROR(Code::FailedPrecondition, "holds nothing", tensor.shape());
  EXPECT_ERROR(Code::FailedPrecondition, "holds nothing", tensor.rank());
  EXPECT_ERROR(Code::FailedPrecondition, "holds nothing", tensor.size());
  EXPECT_ERROR(Code::FailedPrecondition, "holds nothing", tensor.device());
  EXPECT_ERROR(Code::FailedPrecondition, "holds nothing", tensor.to<float>());
  EXPECT_ERROR(Code::FailedPrecondition, "holds nothing", tensor.at<float>({0}));
  EXPECT_ERROR(Code::FailedPrecondition, "holds nothing", tensor.to_vector<float>());
  EXPECT_ERROR(Code::FailedPrecondition, "holds nothing", tensor.data<float>());
}

template <typename T>
void expect_scalar(const Tensor& tensor, T value) {
  EXPECT_EQ(tensor.dtype(), dtype_of<T>);
  EXPECT_EQ(tensor.shape(), Shape{});
  EXPECT_EQ(tensor.size(), 1);
  EXPECT_EQ(tensor.to<T>(), value);
}

TEST(Tensor, IsMadeFromEveryKindOfScalar) {
  const Tensor x = 1.f;
  expect_scalar<float>(x, 1.f);
  expect_scalar<double>(2.5, 2.5);
  expect_scalar<int32_t>(3, 3);
  expect_scalar<int64_t>(4L, 4);
  expect_scalar<int64_t>(5LL, 5);
  expect_scalar<int64_t>(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::min());
  expect_scalar<int8_t>(int8_t{-6}, -6);
  expect_scalar<int16_t>(int16_t{-7}, -7);
  expect_scalar<uint8_t>(uint8_t{200}, 200);
  expect_scalar<bool>(true, true);
  expect_scalar<float16>(float16(1.5f), float16(1.5f));
  expect_scalar<bfloat16>(bfloat16(1.5f), bfloat16(1.5f));
  expect_scalar<std::string>("text", "text");
  expect_scalar<std::string>(std::string("a\0b", 3), std::string("a\0b", 3));
  std::string changeable = "text";
  expect_scalar<std::string>(changeable.data(), "text");
}

TEST(Tensor, TypesThatAreNoElementsDoNotBecomeTensors) {
  EXPECT_FALSE((std::convertible_to<unsigned, Tensor>));
  EXPECT_FALSE((std::convertible_to<size_t, Tensor>));
  EXPECT_FALSE((std::convertible_to<char, Tensor>));
  EXPECT_FALSE((std::convertible_to<std::nullptr_t, Tensor>));
  EXPECT_FALSE((std::convertible_to<void*, Tensor>));
}

TEST(Tensor, NullTextIsAnError) {
  const char* const nothing = nullptr;
  EXPECT_ERROR(Code::InvalidArgument, "null pointer", Tensor(nothing));
  EXPECT_ERROR(Code::InvalidArgument, "null pointer", Tensor({"a", nothing}));
}

TEST(Tensor, IsMadeFromNestedLists) {
  const Tensor vector({5.f});
  EXPECT_EQ(vector.shape(), Shape({1}));
  EXPECT_EQ(vector.dtype(), kFloat32);

  const Tensor column({{1}, {2}});
  EXPECT_EQ(column.shape(), Shape({2, 1}));
  EXPECT_EQ(column.dtype(), kInt32);
  EXPECT_EQ(column.to_vector<int>(), (std::vector<int>{1, 2}));

  const Tensor cube({{{1., 2., 3.}, {4., 5., 6.}}});
  EXPECT_EQ(cube.shape(), Shape({1, 2, 3}));
  EXPECT_EQ(cube.at<double>({0, 1, 0}), 4.);

  const Tensor block({{{{1L}}, {{2L}}}});
  EXPECT_EQ(block.shape(), Shape({1, 2, 1, 1}));
  EXPECT_EQ(block.dtype(), kInt64);
}

TEST(Tensor, IsMadeFromListsOfBoolsAndTexts) {
  const Tensor bools({true, false, true});
  EXPECT_EQ(bools.dtype(), kBool);
  EXPECT_EQ(bools.to_vector<bool>(), (std::vector<bool>{true, false, true}));

  const Tensor texts({"a", "b"});
  EXPECT_EQ(texts.dtype(), kString);
  EXPECT_EQ(texts.shape(), Shape({2}));
  EXPECT_EQ(Tensor({"a"}).shape(), Shape({1}));
  EXPECT_EQ(Tensor({std::string("a")}).shape(), Shape({1}));
  EXPECT_EQ(Tensor({{"a"}, {"b"}}).shape(), Shape({2, 1}));
  const Tensor rows({{"a", "b"}, {"c", "d"}, {"e", "f"}});
  EXPECT_EQ(rows.shape(), Shape({3, 2}));
  EXPECT_EQ(rows.at<std::string>({1, 0}), "c");
}

TEST(Tensor, RaggedListsAreAnError) {
  EXPECT_ERROR(Code::InvalidArgument, "(2,), another (1,)", Tensor({{1, 2}, {3}}));
  EXPECT_ERROR(Code::InvalidArgument, "(1, 2), another (2, 2)",
               Tensor({{{1, 2}}, {{3, 4}, {5, 6}}}));
  EXPECT_ERROR(Code::InvalidArgument, "not equally long", Tensor({{"a"}, {"b", "c"}}));
}

TEST(Tensor, EmptyListsMakeEmptyTensors) {
  EXPECT_EQ(Tensor(std::initializer_list<float>{}).shape(), Shape({0}));
  const std::initializer_list<std::initializer_list<float>> rows = {{}, {}};
  EXPECT_EQ(Tensor(rows).shape(), Shape({2, 0}));
  EXPECT_EQ(Tensor(rows).size(), 0);
  EXPECT_TRUE(Tensor(rows).to_vector<float>().empty());
  EXPECT_TRUE(Tensor::from(std::vector<std::string>{}).to_vector<std::string>().empty());
}

TEST(Tensor, CopiesASpan) {
  float values[] = {1, 2, 3, 4};
  const Tensor tensor = Tensor::from(std::span<const float>(values), {2, 2});
  values[0] = 9;
  EXPECT_EQ(tensor.at<float>({0, 0}), 1);
  EXPECT_EQ(tensor.at<float>({1, 0}), 3);
  EXPECT_ERROR(Code::InvalidArgument, "4 values do not make up shape (3,)",
               Tensor::from(std::span<const float>(values), {3}));
}

TEST(Tensor, TakesAVectorOverWithoutACopy) {
  std::vector<float> values = {1, 2, 3, 4};
  const float* const memory = values.data();
  const Tensor tensor = Tensor::from(std::move(values), {2, 2});
  EXPECT_EQ(tensor.data<float>().data(), memory);
  EXPECT_EQ(tensor.shape(), Shape({2, 2}));
  EXPECT_EQ(Tensor::from(std::vector<int>{1, 2, 3}).shape(), Shape({3}));
  EXPECT_EQ(Tensor::from(std::vector<bool>{true, false}, {2, 1}).at<bool>({0, 0}), true);
  EXPECT_EQ(Tensor::from(std::vector<double>{}).shape(), Shape({0}));
  EXPECT_EQ(Tensor::from(std::vector<std::string>{"a", "b"}, {1, 2}).shape(), Shape({1, 2}));
}

TEST(Tensor, VectorMustFillTheShape) {
  const std::vector<int> values = {1, 2, 3};
  EXPECT_ERROR(Code::InvalidArgument, "3 values do not make up shape (2, 2), which has 4 elements",
               Tensor::from(values, {2, 2}));
  EXPECT_ERROR(Code::InvalidArgument, "(None,)", Tensor::from(values, {-1}));
  EXPECT_ERROR(Code::InvalidArgument, "<unknown>", Tensor::from(values, Shape::unknown()));
  EXPECT_ERROR(Code::InvalidArgument, "64 bits",
               Tensor::from(values, {int64_t{1} << 32, int64_t{1} << 32}));
  EXPECT_ERROR(Code::InvalidArgument, "1 values do not make up shape (2,)",
               Tensor::from(std::vector<std::string>{"a"}, {2}));
}

TEST(TensorFromMemory, LooksAtTheMemoryItself) {
  int32_t values[] = {1, 2, 3};
  const Tensor tensor = Tensor::from_memory(values, kInt32, {3}, nullptr);
  EXPECT_EQ(tensor.data<int32_t>().data(), values);
}

TEST(TensorFromMemory, ReleasesOnceAfterTheLastView) {
  float values[] = {1, 2, 3, 4};
  int released = 0;
  Tensor view;
  {
    const Tensor tensor = Tensor::from_memory(values, kFloat32, {2, 2}, [&] { ++released; });
    const Tensor copy = tensor;
    view = internal::from_aten(internal::aten(tensor).select(0, 1));
  }
  EXPECT_EQ(released, 0);
  EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{3, 4}));
  view = Tensor();
  EXPECT_EQ(released, 1);
}

TEST(TensorFromMemory, ReleasesEmptyMemoryToo) {
  int released = 0;
  (void)Tensor::from_memory(nullptr, kFloat32, {0, 3}, [&] { ++released; });
  EXPECT_EQ(released, 1);
}

TEST(TensorFromMemory, DoesNotReleaseWhatItRefuses) {
  int released = 0;
  const auto release = [&] { ++released; };
  float value = 0;
  const auto from = [&](const void* data, DType dtype, const Shape& shape) {
    return Tensor::from_memory(data, dtype, shape, release);
  };
  EXPECT_ERROR(Code::InvalidArgument, "string", from(&value, kString, {}));
  EXPECT_ERROR(Code::InvalidArgument, "resource", from(&value, kResource, {}));
  EXPECT_ERROR(Code::InvalidArgument, "null memory for a tensor of shape (2,)",
               from(nullptr, kFloat32, {2}));
  EXPECT_ERROR(Code::InvalidArgument, "(None,)", from(&value, kFloat32, {-1}));
  EXPECT_ERROR(Code::InvalidArgument, "more elements than fit into 64 bits",
               from(&value, kInt8, {int64_t{1} << 32, int64_t{1} << 32}));
  EXPECT_ERROR(Code::InvalidArgument, "more bytes than fit into 64 bits",
               from(&value, kFloat64, {int64_t{1} << 31, int64_t{1} << 31}));
  EXPECT_EQ(released, 0);
}

TEST(TensorFromMemory, TakesMemoryAtAnyAddress) {
  const std::vector<double> values = {1.5, 2.5};
  std::vector<char> bytes(1 + 2 * sizeof(double));
  std::memcpy(bytes.data() + 1, values.data(), 2 * sizeof(double));
  const Tensor tensor = Tensor::from_memory(bytes.data() + 1, kFloat64, {2}, nullptr);
  EXPECT_EQ(tensor.to_vector<double>(), values);
  EXPECT_EQ(tensor.at<float>({1}), 2.5f);
  EXPECT_EQ(tensor.data<double>()[1], 2.5);
  EXPECT_EQ(format_values(tensor), "[1.5 2.5]");
}

TEST(TensorFromMemory, TakesAnyByteAsABool) {
  const uint8_t bytes[] = {0, 1, 7};
  const Tensor tensor = Tensor::from_memory(bytes, kBool, {3}, nullptr);
  EXPECT_EQ(tensor.to_vector<int>(), (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(format_values(tensor), "[False  True  True]");
}

TEST(TensorElements, ConvertToTheTypeAskedFor) {
  const Tensor tensor({1.75, -2.75, 0.});
  EXPECT_EQ(tensor.to_vector<int>(), (std::vector<int>{1, -2, 0}));
  EXPECT_EQ(tensor.to_vector<float>(), (std::vector<float>{1.75f, -2.75f, 0.f}));
  EXPECT_EQ(tensor.to_vector<bool>(), (std::vector<bool>{true, true, false}));
  EXPECT_EQ(tensor.at<float16>({0}).bits, float16(1.75f).bits);
  EXPECT_EQ(Tensor({float16(0.5f)}).at<double>({0}), 0.5);
  EXPECT_EQ(Tensor({float16(0.5f)}).at<bfloat16>({0}).bits, bfloat16(0.5f).bits);
  EXPECT_EQ(Tensor({true, false}).to_vector<int8_t>(), (std::vector<int8_t>{1, 0}));
  EXPECT_EQ(Tensor({200}).to_vector<uint8_t>(), (std::vector<uint8_t>{200}));
  EXPECT_EQ(Tensor(7).to<long long>(), 7);
  EXPECT_TRUE(std::isinf(Tensor(1e300).to<float>()));
}

TEST(TensorElements, NumbersThatDoNotFitAreAnError) {
  EXPECT_ERROR(Code::InvalidArgument, "300 does not fit into int8", Tensor(300).to<int8_t>());
  EXPECT_ERROR(Code::InvalidArgument, "-1 does not fit into uint8", Tensor(-1).to<uint8_t>());
  EXPECT_ERROR(Code::InvalidArgument, "200 does not fit into int8",
               Tensor(uint8_t{200}).to<int8_t>());
  EXPECT_ERROR(Code::InvalidArgument, "1e+20 does not fit into int64", Tensor(1e20).to<int64_t>());
  EXPECT_ERROR(Code::InvalidArgument, "nan does not fit into int32",
               Tensor(std::nan("")).to<int>());
  EXPECT_ERROR(Code::InvalidArgument, "inf does not fit", Tensor(float16(INFINITY)).to<int64_t>());
  EXPECT_ERROR(Code::InvalidArgument, "into int64", Tensor(9223372036854775808.).to<int64_t>());
  EXPECT_EQ(Tensor(-9223372036854775808.).to<int64_t>(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(Tensor(255.9).to<uint8_t>(), 255);
  EXPECT_EQ(Tensor(-0.9).to<uint8_t>(), 0);
}

TEST(TensorElements, OnlyOneElementConvertsToACppValue) {
  EXPECT_EQ(Tensor({{5}}).to<int>(), 5);
  EXPECT_ERROR(Code::InvalidArgument, "this one has shape (2,)", Tensor({1, 2}).to<int>());
  EXPECT_ERROR(Code::InvalidArgument, "(0,)", Tensor::from(std::vector<int>{}).to<int>());
  EXPECT_TRUE(static_cast<bool>(Tensor(2)));
  EXPECT_FALSE(static_cast<bool>(Tensor({0.f})));
  EXPECT_ERROR(Code::InvalidArgument, "(2,)", static_cast<bool>(Tensor({true, true})));
}

TEST(TensorElements, IndicesMustBeWithinTheShape) {
  const Tensor tensor({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(tensor.at<int>({1, 2}), 6);
  EXPECT_EQ(tensor.at<int>({-1, -3}), 4);
  EXPECT_EQ(Tensor(5).at<int>({}), 5);
  EXPECT_ERROR(Code::InvalidArgument, "index 2 is outside of dimension 0 of shape (2, 3)",
               tensor.at<int>({2, 0}));
  EXPECT_ERROR(Code::InvalidArgument, "index -4 is outside of dimension 1",
               tensor.at<int>({0, -4}));
  EXPECT_ERROR(Code::InvalidArgument, "one index per dimension, got 1 for shape (2, 3)",
               tensor.at<int>({0}));
}

TEST(TensorElements, TextAndNumbersDoNotConvert) {
  EXPECT_ERROR(Code::InvalidArgument, "a string tensor cannot be read as float32",
               Tensor({"1"}).to<float>());
  EXPECT_ERROR(Code::InvalidArgument, "a int32 tensor cannot be read as string",
               Tensor({1}).to_vector<std::string>());
  EXPECT_ERROR(Code::InvalidArgument, "a string tensor cannot be read as bool",
               static_cast<bool>(Tensor("true")));
}

TEST(TensorElements, TextKeepsEveryByte) {
  const std::string text("a\0\xff", 3);
  const Tensor tensor = Tensor::from(std::vector<std::string>{text, ""});
  EXPECT_EQ(tensor.at<std::string>({0}), text);
  EXPECT_EQ(tensor.to_vector<std::string>(), (std::vector<std::string>{text, ""}));
  EXPECT_EQ(tensor.data<std::string>()[0], text);
}

TEST(TensorElements, DataNeedsTheDTypesOwnType) {
  const Tensor tensor({1, 2});
  EXPECT_EQ(tensor.data<int>().size(), 2u);
  EXPECT_ERROR(Code::InvalidArgument, "the elements are int32, not float32", tensor.data<float>());
}

TEST(TensorElements, OfAViewAreInRowMajorOrder) {
  const Tensor tensor({{1, 2, 3}, {4, 5, 6}});
  const Tensor view = internal::from_aten(internal::aten(tensor).t());
  EXPECT_EQ(view.to_vector<int>(), (std::vector<int>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(view.at<int>({2, 0}), 3);
  EXPECT_EQ(view.data<int>()[1], 4);
  EXPECT_EQ(view.data<int>().data(), view.data<int>().data());
}

TEST(SymbolicTensor, HasDTypeAndShapeButNoValues) {
  const Tensor symbol = make_symbol(kFloat32, {-1, 2});
  EXPECT_TRUE(symbol.is_symbolic());
  EXPECT_EQ(symbol.dtype(), kFloat32);
  EXPECT_EQ(symbol.shape(), Shape({-1, 2}));
  EXPECT_EQ(symbol.device(), "");
  EXPECT_ERROR(Code::InvalidArgument, "(None, 2)", symbol.size());
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{-1}, Shape::unknown()}) {
    const Tensor one = make_symbol(kFloat32, shape);
    EXPECT_ERROR(Code::FailedPrecondition, "symbolic", one.to<float>());
    EXPECT_ERROR(Code::FailedPrecondition, "symbolic", static_cast<bool>(one));
    EXPECT_ERROR(Code::FailedPrecondition, "symbolic", one.at<float>({0}));
    EXPECT_ERROR(Code::FailedPrecondition, "symbolic", one.to_vector<float>());
    EXPECT_ERROR(Code::FailedPrecondition, "symbolic", one.data<float>());
    EXPECT_ERROR(Code::FailedPrecondition, "symbolic", format_values(one));
  }
  EXPECT_ERROR(Code::FailedPrecondition, "symbolic",
               make_symbol(kString, {1}).to_vector<std::string>());
}

TEST(ResourceTensor, HasNoElements) {
  const Tensor handle = internal::make_resource(std::make_shared<EmptyResource>());
  EXPECT_EQ(handle.dtype(), kResource);
  EXPECT_ERROR(Code::InvalidArgument, "resource", handle.to<float>());
  EXPECT_ERROR(Code::InvalidArgument, "resource", handle.to_vector<std::string>());
  EXPECT_ERROR(Code::InvalidArgument, "resource", internal::strings(handle));
  EXPECT_ERROR(Code::InvalidArgument, "got float32", internal::resource_of(Tensor(1.f)));
}

TEST(TensorAndTorch, TypesWithoutCounterpartAreAnError) {
  EXPECT_ERROR(Code::InvalidArgument, "ComplexFloat", internal::from_aten(at::kComplexFloat));
  EXPECT_ERROR(Code::InvalidArgument, "string", internal::to_aten(kString));
  EXPECT_ERROR(Code::InvalidArgument, "needs numbers, got a string", internal::aten(Tensor({"a"})));
}

TEST(TensorSpec, DescribesATensor) {
  const TensorSpec rows{kFloat32, {-1, 2}};
  EXPECT_EQ(rows.to_string(), "float32 (None, 2)");
  EXPECT_EQ(TensorSpec(), (TensorSpec{kFloat32, Shape::unknown()}));
  EXPECT_EQ(TensorSpec::of(Tensor({{1.f, 2.f}})), (TensorSpec{kFloat32, {1, 2}}));
  EXPECT_TRUE(rows.is_compatible_with(TensorSpec::of(Tensor({{1.f, 2.f}}))));
  EXPECT_FALSE(rows.is_compatible_with(TensorSpec::of(Tensor({1.f, 2.f}))));
  EXPECT_FALSE(rows.is_compatible_with({kFloat64, {1, 2}}));
}

}  // namespace
}  // namespace cohort
