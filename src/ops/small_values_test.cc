#include <cstring>
#include <limits>

#include "cohort/gradient.h"
#include "cohort/ops.h"
#include "ops/elementwise.h"
#include "support/expect_error.h"

namespace cohort::internal {
namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&, Site);
using Unary = Tensor (*)(const Tensor&, Site);

template <typename T>
std::vector<T> tricky_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {
      0, 1, 2, 3, static_cast<T>(-1), static_cast<T>(-7), Limits::max(), Limits::lowest()};
  if constexpr (std::floating_point<T>) {
    const T more[] = {-T{0},
                      T{0.1f},
                      Limits::infinity(),
                      -Limits::infinity(),
                      Limits::quiet_NaN(),
                      Limits::denorm_min(),
                      Limits::min()};
    values.insert(values.end(), std::begin(more), std::end(more));
  }
  return values;
}

// Every pair of the values, as two long columns.
template <typename T>
std::pair<std::vector<T>, std::vector<T>> all_pairs() {
  std::pair<std::vector<T>, std::vector<T>> columns;
  for (const T a : tricky_values<T>()) {
    for (const T b : tricky_values<T>()) {
      columns.first.push_back(a);
      columns.second.push_back(b);
    }
  }
  return columns;
}

template <typename T>
Tensor part_of(const std::vector<T>& values, size_t at, size_t count) {
  return Tensor::from(std::vector<T>(values.begin() + at, values.begin() + at + count));
}

// NaNs count as equal, whatever their bits.
template <typename R>
void expect_same(const std::vector<R>& found, const std::vector<R>& all, size_t at,
                 const std::string& what) {
  for (size_t i = 0; i < found.size(); ++i) {
    const R a = found[i];
    const R b = all[at + i];
    if (a != a && b != b) continue;
    EXPECT_EQ(std::memcmp(&a, &b, sizeof(R)), 0)
        << what << " " << at + i << ": " << +a << " " << +b;
  }
}

// The kernel library computes the whole columns, loops compute pieces of them.
template <typename T, typename R>
void expect_pieces_agree(Binary op, const std::string& what) {
  const auto [a, b] = all_pairs<T>();
  const auto whole = op(Tensor::from(a), Tensor::from(b), Site{}).template to_vector<R>();
  for (size_t at = 0; at + 3 < a.size(); ++at) {
    const size_t count = at % 3 + 1;
    const Tensor piece = op(part_of(a, at, count), part_of(b, at, count), Site{});
    EXPECT_NE(plain_bytes(static_cast<const NumericBody&>(body(piece))), nullptr) << what;
    expect_same(piece.to_vector<R>(), whole, at, what);
    const T left = a[at];
    const T right = b[at];
    const Tensor x = Tensor::from(std::span<const T>(&left, 1), Shape{});
    const Tensor y = Tensor::from(std::span<const T>(&right, 1), Shape{1});
    expect_same(op(x, y, Site{}).to_vector<R>(), whole, at, what);
    EXPECT_EQ(op(x, y, Site{}).shape(), Shape({1}));
  }
}

template <typename T>
void expect_unary_pieces_agree(Unary op, const std::string& what) {
  std::vector<T> values = tricky_values<T>();
  while (values.size() < 40) values.insert(values.end(), values.begin(), values.begin() + 8);
  const auto whole = op(Tensor::from(values), Site{}).template to_vector<T>();
  for (size_t at = 0; at + 3 < values.size(); ++at) {
    expect_same(op(part_of(values, at, at % 3 + 1), Site{}).template to_vector<T>(), whole, at,
                what);
  }
}

TEST(SmallOps, GiveWhatTheKernelLibraryGives) {
  const std::pair<const char*, Binary> numbers[] = {
      {"add", add}, {"sub", sub}, {"mul", mul}, {"minimum", minimum}, {"maximum", maximum}};
  for (const auto& [name, op] : numbers) {
    expect_pieces_agree<float, float>(op, name);
    expect_pieces_agree<double, double>(op, name);
    expect_pieces_agree<int32_t, int32_t>(op, name);
    expect_pieces_agree<int64_t, int64_t>(op, name);
  }
  expect_pieces_agree<float, float>(div, "div");
  expect_pieces_agree<double, double>(div, "div");
  const std::pair<const char*, Binary> truths[] = {
      {"equal", equal}, {"not_equal", not_equal}, {"less", less}, {"less_equal", less_equal}};
  for (const auto& [name, op] : truths) {
    expect_pieces_agree<float, uint8_t>(op, name);
    expect_pieces_agree<int64_t, uint8_t>(op, name);
  }
  const std::pair<const char*, Unary> unaries[] = {{"neg", neg}, {"abs", abs}, {"square", square}};
  for (const auto& [name, op] : unaries) {
    expect_unary_pieces_agree<float>(op, name);
    expect_unary_pieces_agree<double>(op, name);
    expect_unary_pieces_agree<int32_t>(op, name);
    expect_unary_pieces_agree<int64_t>(op, name);
  }
}

TEST(SmallOps, CastAsTheKernelLibraryDoes) {
  const Tensor small = Tensor::from(std::vector<int64_t>{-1, int64_t{1} << 40});
  EXPECT_EQ(cast(small, kInt32).to_vector<int32_t>(), (std::vector<int32_t>{-1, 0}));
  EXPECT_EQ(cast(small, kFloat32).to_vector<float>(), (std::vector<float>{-1, 0x1p40f}));
  EXPECT_EQ(cast(Tensor({2.5}), kInt64).to_vector<int64_t>(), (std::vector<int64_t>{2}));
  EXPECT_EQ(cast(Tensor({1e300}), kFloat32).to_vector<float>()[0],
            std::numeric_limits<float>::infinity());
  EXPECT_EQ(cast(Tensor({1, 2, 3, 4, 5, 6, 7, 8}), kFloat64).to_vector<double>()[7], 8);
}

TEST(SmallOps, BroadcastWhereTheyDoNotApply) {
  EXPECT_EQ((Tensor({{1.f}, {2.f}}) + Tensor({10.f, 20.f})).to_vector<float>(),
            (std::vector<float>{11, 21, 12, 22}));
  EXPECT_EQ((Tensor({{1.f, 2.f}}) * Tensor({3.f})).shape(), Shape({1, 2}));
  EXPECT_EQ((Tensor::from(std::vector<float>{}) + 1.f).size(), 0);
  expect_error(
      [] {
        Tensor({1.f, 2.f}) + Tensor({1.f, 2.f, 3.f});
      },
      "do not broadcast", Code::InvalidArgument);
}

TEST(SmallOps, AreRecorded) {
  const Tensor x(3.0);
  GradientTape tape;
  tape.watch(x);
  EXPECT_EQ(tape.gradient(x * x + 2 * x, x).dense().to<double>(), 8);
}

}  // namespace
}  // namespace cohort::internal
