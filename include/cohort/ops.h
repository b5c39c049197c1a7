#pragma once

#include "cohort/gradient.h"

// Operations on tensors. With values they run at once; with symbolic tensors they add a node to the
// graph. All operations are differentiable where mathematics allows it.
//
// Rules for all operations:
// - Element-wise operations broadcast as numpy does and convert their inputs to promote(a, b).
// - In arithmetic, a C++ number takes the dtype of the tensor that it is combined with.
// - A negative axis counts from the end. A reduction without axes reduces all axes.
// - Wrong shapes, dtypes and axes throw InvalidArgument, naming the op and what it found.
// - Do not pass the last parameter, `site`: by default it is the caller's file and line.

namespace cohort {

// Element by element, with one input. Only floating dtypes, unless a comment adds integers.
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

// Element by element, with two inputs of numbers.
Tensor add(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor sub(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor mul(const Tensor& a, const Tensor& b, Site site = Site::here());
// True division: integers of up to 16 bits divide as float32, wider integers as float64.
Tensor div(const Tensor& a, const Tensor& b, Site site = Site::here());
// floor_div rounds toward minus infinity, and mod has the sign of the divisor, so that a ==
// floor_div(a, b) * b + mod(a, b). They throw InvalidArgument if an integer is divided by zero.
Tensor floor_div(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor mod(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor pow(const Tensor& base, const Tensor& exponent, Site site = Site::here());
Tensor minimum(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor maximum(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor clip(const Tensor& x, const Tensor& low, const Tensor& high, Site site = Site::here());

// Comparisons return bool. equal and not_equal also compare strings.
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
// Bit by bit on integer tensors; on bool tensors these equal the logical operations.
Tensor bitwise_and(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor bitwise_or(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor bitwise_xor(const Tensor& a, const Tensor& b, Site site = Site::here());
Tensor bitwise_not(const Tensor& x, Site site = Site::here());

// Returns a where condition is true, and b elsewhere. All three broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Site site = Site::here());
// Converts to `dtype`. Floats become integers by truncation; every value but zero becomes true.
Tensor cast(const Tensor& x, DType dtype, Site site = Site::here());

// MatmulOptions sets which inputs matmul() transposes.
struct MatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
};
// Returns the matrix product of the last two dimensions. Leading dimensions broadcast. Both inputs
// must have the same numeric dtype.
Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options = {},
              Site site = Site::here());

// Axes selects the axes of a reduction.
struct Axes {
  Axes() = default;  // all
  Axes(int axis) : axes({axis}), all(false) {}
  Axes(std::initializer_list<int64_t> list) : axes(list), all(false) {}
  Axes(std::vector<int64_t> list) : axes(std::move(list)), all(false) {}

  std::vector<int64_t> axes;
  bool all = true;
};
// Whether reduced axes stay, with size 1: sum(x, 1, KeepDims::Yes).
enum class KeepDims : bool { No, Yes };

// The sum of no elements is 0, the product 1, the mean NaN. Sums and products of integers keep the
// dtype and wrap around; those of bools are int64.
Tensor sum(const Tensor& x, const Axes& axes = {}, KeepDims keep = KeepDims::No,
           Site site = Site::here());
// Integers divide as in div().
Tensor mean(const Tensor& x, const Axes& axes = {}, KeepDims keep = KeepDims::No,
            Site site = Site::here());
Tensor prod(const Tensor& x, const Axes& axes = {}, KeepDims keep = KeepDims::No,
            Site site = Site::here());
// Throw InvalidArgument if x has no elements. Equal extremes share the gradient evenly.
Tensor max(const Tensor& x, const Axes& axes = {}, KeepDims keep = KeepDims::No,
           Site site = Site::here());
Tensor min(const Tensor& x, const Axes& axes = {}, KeepDims keep = KeepDims::No,
           Site site = Site::here());
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, KeepDims keep = KeepDims::No,
                 Site site = Site::here());
// Return whether any element, or every element, of a bool tensor is true.
Tensor any(const Tensor& x, const Axes& axes = {}, KeepDims keep = KeepDims::No,
           Site site = Site::here());
Tensor all(const Tensor& x, const Axes& axes = {}, KeepDims keep = KeepDims::No,
           Site site = Site::here());
// Return the index (int64) of the first extreme along one axis.
Tensor argmax(const Tensor& x, int axis = 0, Site site = Site::here());
Tensor argmin(const Tensor& x, int axis = 0, Site site = Site::here());
// Returns the sums of the elements up to and including each along an axis; dtypes as in sum().
Tensor cumsum(const Tensor& x, int axis = 0, Site site = Site::here());

// One size may be -1: it becomes what remains.
Tensor reshape(const Tensor& x, const Shape& shape, Site site = Site::here());
// Without a permutation, reverses the dimensions.
Tensor transpose(const Tensor& x, const std::vector<int64_t>& permutation = {},
                 Site site = Site::here());
Tensor expand_dims(const Tensor& x, int axis, Site site = Site::here());
// Removes the given dimensions, which must have size 1, or all dimensions of size 1.
Tensor squeeze(const Tensor& x, const Axes& axes = {}, Site site = Site::here());
Tensor concat(const std::vector<Tensor>& parts, int axis, Site site = Site::here());
Tensor stack(const std::vector<Tensor>& parts, int axis = 0, Site site = Site::here());
// Splits into `count` equal parts, or into parts of the given sizes. One size may be -1: the rest.
std::vector<Tensor> split(const Tensor& x, int64_t count, int axis = 0, Site site = Site::here());
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int axis = 0,
                          Site site = Site::here());
std::vector<Tensor> unstack(const Tensor& x, int axis = 0, Site site = Site::here());

// Range is begin:end:step of one dimension, as in Python. Bounds beyond the ends are clamped, and
// negative bounds count from the end. A missing bound is the end of the dimension where the step
// starts or stops. The step must not be 0.
struct Range {
  std::optional<int64_t> begin = std::nullopt;
  std::optional<int64_t> end = std::nullopt;
  int64_t step = 1;
};
// Applies one range to each dimension, from the first. Dimensions without a range stay whole.
Tensor slice(const Tensor& x, const std::vector<Range>& ranges, Site site = Site::here());

// Padding is the number of elements that pad() adds to the ends of a dimension.
struct Padding {
  int64_t before = 0;
  int64_t after = 0;
};
// Applies one padding to each dimension.
Tensor pad(const Tensor& x, const std::vector<Padding>& paddings, double value = 0,
           Site site = Site::here());
// Repeats x `multiples[i]` times along dimension i.
Tensor tile(const Tensor& x, const std::vector<int64_t>& multiples, Site site = Site::here());
Tensor broadcast_to(const Tensor& x, const Shape& shape, Site site = Site::here());

// Returns the rows of `x` along `axis` at `indices` (integers of any shape). The shape of the
// indices replaces that dimension. Throws InvalidArgument if an index is out of range. For axis 0
// the gradient is IndexedSlices.
Tensor gather(const Tensor& x, const Tensor& indices, int axis = 0, Site site = Site::here());
// Returns zeros of shape `shape`, with row values[i] added at position indices[i] of the first
// dimension, in order. `values` has the shape of the indices (any), then that of one row.
Tensor scatter(const Tensor& indices, const Tensor& values, const Shape& shape,
               Site site = Site::here());
// Adds a last dimension of size `depth`. An index outside it gives a row of zeros.
Tensor one_hot(const Tensor& indices, int64_t depth, DType dtype = kFloat32,
               Site site = Site::here());

// Return the shape, the number of elements and the number of dimensions as int64 tensors.
Tensor shape(const Tensor& x, Site site = Site::here());
Tensor size(const Tensor& x, Site site = Site::here());
Tensor rank(const Tensor& x, Site site = Site::here());

Tensor zeros(const Shape& shape, DType dtype = kFloat32, Site site = Site::here());
Tensor ones(const Shape& shape, DType dtype = kFloat32, Site site = Site::here());
// Returns a tensor that is `value` (a scalar) everywhere and has its dtype.
Tensor fill(const Shape& shape, const Tensor& value, Site site = Site::here());
Tensor zeros_like(const Tensor& x, Site site = Site::here());
Tensor ones_like(const Tensor& x, Site site = Site::here());
Tensor fill_like(const Tensor& x, double value, Site site = Site::here());
// Returns start, start + step, ... below `limit` (above `limit` if the step is negative).
Tensor range(int64_t limit, DType dtype = kInt64, Site site = Site::here());
Tensor range(double start, double limit, double step, DType dtype = kFloat32,
             Site site = Site::here());
// Returns `count` values from `first` to `last`, both included.
Tensor linspace(double first, double last, int64_t count, DType dtype = kFloat32,
                Site site = Site::here());
Tensor eye(int64_t rows, std::optional<int64_t> columns = std::nullopt, DType dtype = kFloat32,
           Site site = Site::here());

// TopK is the result of top_k().
struct TopK {
  Tensor values;   // largest first
  Tensor indices;  // int64
};
// Returns the k largest elements of the last dimension. Of equal elements, the lower index comes
// first. NaN counts as smaller than every number.
TopK top_k(const Tensor& x, int64_t k, Site site = Site::here());

enum class SortOrder { Ascending, Descending };
// Sort stably. NaN comes last.
Tensor sort(const Tensor& x, int axis = -1, SortOrder order = SortOrder::Ascending,
            Site site = Site::here());
Tensor argsort(const Tensor& x, int axis = -1, SortOrder order = SortOrder::Ascending,
               Site site = Site::here());

// Unique is the result of unique().
struct Unique {
  Tensor values;   // a vector, in the order of first appearance
  Tensor inverse;  // int64, in the shape of x: gather(values, inverse) is x
  Tensor counts;   // int64, one per value
};
// Returns the distinct elements of x: numbers or strings, of any shape. NaN differs from itself.
Unique unique(const Tensor& x, Site site = Site::here());

// Passes value and gradient on.
Tensor identity(const Tensor& x, Site site = Site::here());
// Passes the value on, but no gradient.
Tensor stop_gradient(const Tensor& x, Site site = Site::here());
// Returns an empty tensor that exists when all of `parts` do, to wait for them.
Tensor group(const std::vector<Tensor>& parts, Site site = Site::here());
// Passes x on and writes "label value" to stderr when it runs.
Tensor print(const Tensor& x, std::string_view label = "", Site site = Site::here());
// Passes x on. If x has NaN or infinity, throws InvalidArgument with `label` and their number.
Tensor check_numerics(const Tensor& x, std::string_view label, Site site = Site::here());

// Branches and loops on values that are unknown while a graph is being built. Outside graphs they
// work as C++'s own branches and loops. All are differentiable.

using Branch = std::function<std::vector<Tensor>()>;

// Returns what then_branch() returns if `predicate`, a bool scalar, is true, and what else_branch()
// returns otherwise. In a graph both branches are traced, and one of them runs. Throws
// InvalidArgument unless both return equally many tensors of the same dtypes.
std::vector<Tensor> cond(const Tensor& predicate, const Branch& then_branch,
                         const Branch& else_branch, Site site = Site::here());
// The same for branches that return one tensor.
template <typename Then, typename Else>
requires std::is_invocable_r_v<Tensor, Then> && std::is_invocable_r_v<Tensor, Else> Tensor
cond(const Tensor& predicate, const Then& then_branch, const Else& else_branch,
     Site site = Site::here()) {
  return cond(predicate, Branch([&] { return std::vector<Tensor>{then_branch()}; }),
              Branch([&] { return std::vector<Tensor>{else_branch()}; }), site)[0];
}

using LoopCondition = std::function<Tensor(std::span<const Tensor>)>;
using LoopBody = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

// WhileOptions limits a while_loop().
struct WhileOptions {
  std::optional<int64_t> maximum_iterations = std::nullopt;  // empty: no limit
};

// Runs `while (condition(state)) state = body(state);`, beginning with `initial`, and returns the
// state. Throws InvalidArgument unless the body keeps the number, dtypes and shapes of the tensors,
// and if maximum_iterations is negative.
// If sizes change, give the initial tensors unknown sizes with placeholder_with_default(). The
// gradient keeps the states of all iterations.
//
//   std::vector<Tensor> state = while_loop(
//       [](std::span<const Tensor> s) { return s[0] < 100.f; },
//       [](std::span<const Tensor> s) { return std::vector<Tensor>{s[0] * 2.f}; }, {sum(x)});
std::vector<Tensor> while_loop(const LoopCondition& condition, const LoopBody& body,
                               const std::vector<Tensor>& initial, const WhileOptions& options = {},
                               Site site = Site::here());

// While a NumericsGuard exists, every op of this thread checks its floating outputs. The first NaN
// or infinity throws InvalidArgument, naming the op that made it from finite inputs.
//
//   const NumericsGuard guard;
//   Tensor root = sqrt(x);  // throws if an element of x is negative
class [[nodiscard]] NumericsGuard {
 public:
  NumericsGuard();
  ~NumericsGuard();
  NumericsGuard(const NumericsGuard&) = delete;
  NumericsGuard& operator=(const NumericsGuard&) = delete;
};

}  // namespace cohort

#include "cohort/internal/operators.h"  // IWYU pragma: export
