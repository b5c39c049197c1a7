#include "cohort/ops.h"
#include "support/datasets.h"

namespace cohort::data {
namespace {

TEST(Element, IsATensorATupleOrAMap) {
  const Element one(Tensor({1, 2}));
  EXPECT_TRUE(one.is_tensor());
  const Element pair = Element::tuple(std::vector<Tensor>{Tensor(1), Tensor(2)});
  EXPECT_EQ(pair.size(), 2u);
  const Element nested = Element::map({{"y", pair}, {"x", one}});
  EXPECT_EQ(nested.names(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(nested["y"][1].to<int>(), 2);
  EXPECT_EQ(nested.tensors().size(), 3u);
}

TEST(Element, ErrorsNameWhatThereIs) {
  const Element map = Element::map({{"x", Tensor(1)}});
  EXPECT_ERROR(Code::NotFound, "'z' in {'x': Tensor}", map["z"]);
  EXPECT_ERROR(Code::InvalidArgument, "the element is {'x': Tensor}", map.tensor());
  EXPECT_ERROR(Code::InvalidArgument, "no part 3",
               (Element::tuple(std::vector<Tensor>{Tensor(1)})[3]));
  EXPECT_ERROR(Code::InvalidArgument, "two parts of a map have the name 'a'",
               (Element::map({{"a", Tensor(1)}, {"a", Tensor(2)}})));
  EXPECT_ERROR(Code::FailedPrecondition, "holds nothing", Element(Tensor()));
}

TEST(Element, PairsTakePartInStructuredBindings) {
  const auto dataset = from_tensor_slices(Tensor({1, 2}), Tensor({3.f, 4.f}));
  int sum = 0;
  for (auto [x, y] : dataset) sum += x.to<int>() * static_cast<int>(y.to<float>());
  EXPECT_EQ(sum, 11);
  for (auto [x, y] : dataset.as<int, double>()) sum += x + static_cast<int>(y);
  EXPECT_EQ(sum, 21);
  const auto element = range(1).begin();
  EXPECT_ERROR(Code::InvalidArgument, "Dataset::as", (*element).get<0>());
}

TEST(Element, UnpacksAnyNumberOfTensors) {
  const auto triples = zip({range(1, 3), range(10, 12), range(100, 102)});
  int64_t sum = 0;
  for (const Element& element : triples) {
    auto [a, b, c] = element.unpack<3>();
    sum += (a + b + c).to<int64_t>();
  }
  EXPECT_EQ(sum, 111 + 114);
  for (auto [a, b, c] : triples.as<Tensor, int64_t, double>()) sum -= a.to<int64_t>() + b;
  EXPECT_EQ(sum, 201);
  const Element first = *triples.begin();
  EXPECT_ERROR(Code::InvalidArgument, "4 tensors were asked for, but the element is (Tensor,",
               first.unpack<4>());
  EXPECT_ERROR(Code::InvalidArgument, "the element is one tensor", Element(Tensor(1)).unpack<1>());
}

}  // namespace
}  // namespace cohort::data
