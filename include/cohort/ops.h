#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/gradient.h"
#include "cohort/site.h"
#include "cohort/tensor.h"

// Operations on tensors. On tensors with values they run at once; on symbolic ones they add a node
// to the graph. All are differentiable where mathematics allows.
//
// Rules that hold throughout:
//  - Element-wise operations broadcast as numpy does, and inputs of different dtypes meet in
//    promote(a, b); a C++ number takes the dtype of the tensor it meets.
//  - A negative axis counts from the end. A reduction without axes reduces all of them.
//  - Wrong shapes, dtypes and axes throw InvalidArgument naming the op and what it found.
//  - The last parameter, `site`, is never passed by hand: it is the caller's file and line.

namespace cohort {

// Element by element, one input. Floating dtypes only, except where said.
Tensor neg(const Tensor& x, Site site = Site::here());     // integers too
Tensor abs(const Tensor& x, Site site = Site::here());     // integers too
Tensor sign(const Tensor& x, Site site = Site::here());    // integers too; -1, 0 or 1
Tensor square(const Tensor& x, Site site = Site::here());  // integers too
Tensor exp(const Tensor& x, Site site = Site::here());
Tensor expm1(const Tensor& x, Site site = Site::here());  // exp(x) - 1, exact near 0
Tensor log(const Tensor& x, Site site = Site::here());
Tensor log1p(const Tensor& x, Site site = Site::here());  // log(1 + x), exact near 0
Tensor sqrt(const Tensor& x, Site site = Site::here());
Tensor rsqrt(const Tensor& x, Site site = Site::here());  // 1 / sqrt(x)
Tensor reciprocal(const Tensor& x, Site site = Site::here());
Tensor sin(const Tensor& x, Site site = Site::here());
Tensor cos(const Tensor& x, Site site = Site::here());
Tensor tanh(const Tensor& x, Site site = Site::here());
Tensor sigmoid(const Tensor& x, Site site = Site::here());
Tensor erf(const Tensor& x, Site site = Site::here());
Tensor floor(const Tensor& x, Site site = Site::here());
Tensor ceil(const Tensor& x, Site site = Site::here());
Tensor round(const Tensor& x, Site site = Site::here());      // halves to even
Tensor is_nan(const Tensor& x, Site site = Site::here());     // bool
Tensor is_finite(const Tensor& x, Site site = Site::here());  // bool

// Element by element, two inputs, numbers.
Tensor add(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor sub(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor mul(const Tensor& a, const Tensor& b, Site site = Site::here());
// True division: integers of up to 16 bits divide as float32, wider ones as float64.
Tensor div(const Tensor& a, const Tensor& b, Site site = Site::here());
// Rounds toward minus infinity; mod has the sign of the divisor, so a == floor_div(a, b) * b +
// mod(a, b). An integer divided by zero is InvalidArgument.
Tensor floor_div(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor mod(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor pow(const Tensor& base, const Tensor& exponent, Site site = Site::here());
Tensor minimum(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor maximum(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor clip(const Tensor& x, const Tensor& low, const Tensor& high, Site site = Site::here());

// Comparisons give bool. equal and not_equal take strings too.
Tensor equal(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor not_equal(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor less(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor less_equal(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor greater(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor greater_equal(const Tensor& a, const Tensor& b, Site site = Site::here());

// Logic on bool tensors.
Tensor logical_and(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor logical_or(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor logical_xor(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor logical_not(const Tensor& x, Site site = Site::here());
// Bit by bit on integer tensors; on bool tensors the same as the logical ones.
Tensor bitwise_and(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor bitwise_or(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor bitwise_xor(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor bitwise_not(const Tensor& x, Site site = Site::here());

// a where condition holds, else b; all three broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Site site = Site::here());
// Floats become integers by truncation; anything non-zero becomes true.
Tensor cast(const Tensor& x, DType dtype, Site site = Site::here());

struct MatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
};
// Matrix product of the last two dimensions; leading dimensions broadcast. Numbers of one dtype.
Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options = {},
              Site site = Site::here());

// Which axes a reduction goes over, and whether they stay with size 1.
struct Axes {
  Axes() = default;  // all
  Axes(int axis) : axes({axis}), all(false) {}
  Axes(std::initializer_list<int64_t> list) : axes(list), all(false) {}
  Axes(std::vector<int64_t> list) : axes(std::move(list)), all(false) {}

  std::vector<int64_t> axes;
  bool all = true;
};
enum class KeepDims : bool { No, Yes };

// Of no elements sum is 0, prod 1, mean NaN. An integer's sum and product keep its dtype and wrap
// around; those of bools are int64.
Tensor sum(const Tensor& x, const Axes& axes = {}, KeepDims keep = KeepDims::No,
           Site site = Site::here());
// Integers divide as div does.
Tensor mean(const Tensor& x, const Axes& axes = {}, KeepDims keep = KeepDims::No,
            Site site = Site::here());
Tensor prod(const Tensor& x, const Axes& axes = {}, KeepDims keep = KeepDims::No,
            Site site = Site::here());
// Of no elements: InvalidArgument. The gradient is shared evenly by equal extremes.
Tensor max(const Tensor& x, const Axes& axes = {}, KeepDims keep = KeepDims::No,
           Site site = Site::here());
Tensor min(const Tensor& x, const Axes& axes = {}, KeepDims keep = KeepDims::No,
           Site site = Site::here());
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, KeepDims keep = KeepDims::No,
                 Site site = Site::here());
// Whether any or all of the elements of a bool tensor hold.
Tensor any(const Tensor& x, const Axes& axes = {}, KeepDims keep = KeepDims::No,
           Site site = Site::here());
Tensor all(const Tensor& x, const Axes& axes = {}, KeepDims keep = KeepDims::No,
           Site site = Site::here());
// Index of the first extreme along one axis, int64.
Tensor argmax(const Tensor& x, int axis = 0, Site site = Site::here());
Tensor argmin(const Tensor& x, int axis = 0, Site site = Site::here());
// Sums of the elements up to each one along an axis; dtypes as sum.
Tensor cumsum(const Tensor& x, int axis = 0, Site site = Site::here());

// Shape. Strings are welcome where no arithmetic is involved: reshape, transpose, expand_dims,
// squeeze, concat, stack, split, unstack, slice, gather, unique. Results are views where possible.
// One size may be -1 and is then what remains.
Tensor reshape(const Tensor& x, const Shape& shape, Site site = Site::here());
// Without a permutation: dimensions in reverse.
Tensor transpose(const Tensor& x, const std::vector<int64_t>& permutation = {},
                 Site site = Site::here());
Tensor expand_dims(const Tensor& x, int axis, Site site = Site::here());
// Removes dimensions of size 1: those named (which must have it), or all.
Tensor squeeze(const Tensor& x, const Axes& axes = {}, Site site = Site::here());
Tensor concat(const std::vector<Tensor>& parts, int axis, Site site = Site::here());
Tensor stack(const std::vector<Tensor>& parts, int axis = 0, Site site = Site::here());
// Into `count` equal parts, or into parts of the given sizes (one may be -1: the rest).
std::vector<Tensor> split(const Tensor& x, int64_t count, int axis = 0, Site site = Site::here());
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int axis = 0,
                          Site site = Site::here());
std::vector<Tensor> unstack(const Tensor& x, int axis = 0, Site site = Site::here());

// begin:end:step of one dimension, as in Python: bounds beyond the ends clamp, negative ones count
// from the end, a missing one means the end where the step starts or stops. The step is not 0.
struct Range {
  std::optional<int64_t> begin = std::nullopt;
  std::optional<int64_t> end = std::nullopt;
  int64_t step = 1;
};
// One range per dimension, from the first; dimensions without a range stay whole.
Tensor slice(const Tensor& x, const std::vector<Range>& ranges, Site site = Site::here());

struct Padding {
  int64_t before = 0;
  int64_t after = 0;
};
// One padding per dimension.
Tensor pad(const Tensor& x, const std::vector<Padding>& paddings, double value = 0,
           Site site = Site::here());
// x repeated `multiples[i]` times along dimension i.
Tensor tile(const Tensor& x, const std::vector<int64_t>& multiples, Site site = Site::here());
Tensor broadcast_to(const Tensor& x, const Shape& shape, Site site = Site::here());

// Rows of `x` along `axis` at `indices` (integers, any shape), whose shape replaces that dimension.
// An index outside it is InvalidArgument. For axis 0 the gradient is IndexedSlices.
Tensor gather(const Tensor& x, const Tensor& indices, int axis = 0, Site site = Site::here());
// Zeros of shape `shape` to which row values[i] is added at indices[i] of the first dimension, in
// order. `values` has the shape of the indices (any), then that of one row.
Tensor scatter(const Tensor& indices, const Tensor& values, const Shape& shape,
               Site site = Site::here());
// One new last dimension of size `depth`; an index outside it gives a row of zeros.
Tensor one_hot(const Tensor& indices, int64_t depth, DType dtype = kFloat32,
               Site site = Site::here());

// What x looks like, as int64 tensors: shape, number of elements, number of dimensions.
Tensor shape(const Tensor& x, Site site = Site::here());
Tensor size(const Tensor& x, Site site = Site::here());
Tensor rank(const Tensor& x, Site site = Site::here());

Tensor zeros(const Shape& shape, DType dtype = kFloat32, Site site = Site::here());
Tensor ones(const Shape& shape, DType dtype = kFloat32, Site site = Site::here());
// `value` (a scalar) everywhere, with its dtype.
Tensor fill(const Shape& shape, const Tensor& value, Site site = Site::here());
Tensor zeros_like(const Tensor& x, Site site = Site::here());
Tensor ones_like(const Tensor& x, Site site = Site::here());
Tensor fill_like(const Tensor& x, double value, Site site = Site::here());
// start, start + step, ... below `limit` (above, for a negative step).
Tensor range(int64_t limit, DType dtype = kInt64, Site site = Site::here());
Tensor range(double start, double limit, double step, DType dtype = kFloat32,
             Site site = Site::here());
// `count` values from `first` to `last`, both included.
Tensor linspace(double first, double last, int64_t count, DType dtype = kFloat32,
                Site site = Site::here());
Tensor eye(int64_t rows, std::optional<int64_t> columns = std::nullopt, DType dtype = kFloat32,
           Site site = Site::here());

struct TopK {
  Tensor values;   // largest first
  Tensor indices;  // int64
};
// The k largest of the last dimension. Of equal values the one with the lower index comes first;
// NaN counts as smaller than everything.
TopK top_k(const Tensor& x, int64_t k, Site site = Site::here());

enum class SortOrder { Ascending, Descending };
// Stable. NaN sorts last.
Tensor sort(const Tensor& x, int axis = -1, SortOrder order = SortOrder::Ascending,
            Site site = Site::here());
Tensor argsort(const Tensor& x, int axis = -1, SortOrder order = SortOrder::Ascending,
               Site site = Site::here());

struct Unique {
  Tensor values;   // a vector, in the order of first appearance
  Tensor inverse;  // int64, in the shape of x: gather(values, inverse) is x
  Tensor counts;   // int64, one per value
};
// The different elements of x, numbers or strings, of any shape. NaN differs from itself.
Unique unique(const Tensor& x, Site site = Site::here());

// Value passes, gradient passes.
Tensor identity(const Tensor& x, Site site = Site::here());
// Value passes, gradient does not.
Tensor stop_gradient(const Tensor& x, Site site = Site::here());
// Something to wait for: an empty tensor that exists once all of `parts` do.
Tensor group(const std::vector<Tensor>& parts, Site site = Site::here());
// Writes "label value" to stderr when it runs, and passes x on.
Tensor print(const Tensor& x, std::string_view label = "", Site site = Site::here());
// Passes x on, or throws InvalidArgument with `label` and how many when it has NaN or infinity.
Tensor check_numerics(const Tensor& x, std::string_view label, Site site = Site::here());

// While it lives, every op of this thread checks its floating outputs; the first NaN or infinity
// throws InvalidArgument naming the op that made it from finite inputs.
class [[nodiscard]] NumericsGuard {
 public:
  NumericsGuard();
  ~NumericsGuard();
  NumericsGuard(const NumericsGuard&) = delete;
  NumericsGuard& operator=(const NumericsGuard&) = delete;
};

}  // namespace cohort

#include "cohort/internal/operators.h"  // IWYU pragma: export
