#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/raise.h"
#include "base/timeline.h"
#include "ops/kernel.h"
#include "ops/row_update.h"
#include "ops/variable_ops.h"

// What the optimizers' update ops share. Their inputs are: the variable's handle, one handle per
// slot, the gradient, for a sparse gradient the row indices, for a dense one any number of terms
// that are added to it, the learning rate and the step number (1 for the first update). The
// constants are attributes; "all_rows" says that a sparse gradient is one of zeros in the rows that
// it does not name.
namespace cohort::internal {

// The attributes of every update op, besides its constants.
inline constexpr AttrList kUpdateAttrs =
    AttrList{{"sparse", AttrKind::Bool}, {"all_rows", AttrKind::Bool}} + kDeclaredAttrs;

Specs infer_update(const OpInputs& inputs);

// The scalars of one update.
struct UpdateStep {
  double learning_rate;
  double step;
};

// torch's and TensorFlow's formulas differ in where a constant goes. A rule has both places, and
// where it is not the constant has no effect, to the last bit.

// Where weights decay: through the gradient, or (decoupled) the parameter shrinks by itself.
template <typename T>
struct DecayIn {
  DecayIn(bool decoupled, double rate, double decay)
      : gradient(static_cast<T>(decoupled ? 0 : decay)),
        parameter(static_cast<T>(decoupled ? 1 - rate * decay : 1)) {}
  T gradient;
  T parameter;
};

// What keeps a root that is divided by from 0: added to the root, or inside it (TensorFlow).
template <typename T>
struct EpsilonIn {
  EpsilonIn(bool tensorflow, double epsilon)
      : inside(static_cast<T>(tensorflow ? epsilon : 0)),
        outside(static_cast<T>(tensorflow ? 0 : epsilon)) {}
  T inside;
  T outside;
};

// Where the rate goes: it multiplies the velocity, or (TensorFlow) what is added to the velocity.
template <typename T>
struct RateIn {
  RateIn(bool tensorflow, double rate)
      : velocity(static_cast<T>(tensorflow ? rate : 1)),
        parameter(static_cast<T>(tensorflow ? 1 : rate)) {}
  T velocity;
  T parameter;
};

// A gradient that is two arrays, added up as it is read: going over each array once, side by side,
// takes half the time of adding them up first, even block by block.
template <typename T>
struct SumOfTwo {
  const T* first;
  const T* second;
  T operator[](int64_t i) const { return first[i] + second[i]; }
};

// Runs one update rule with kSlots slots. rule(step, {parameter, slots...}, gradient, count) is
// called for every run of consecutive elements that is to be updated: once for a dense gradient of
// one or two terms, block by block for one of more, once per row (rows named twice added up) for a
// sparse one unless "all_rows" is set. The gradient is a pointer, or reads like one; all are to
// float or double, and none overlap; 16-bit variables are updated in float. All cells are locked
// meanwhile.
template <int kSlots>
class OptimizerUpdate {
 public:
  explicit OptimizerUpdate(Kernel& k) : k_(k) {}

  template <typename Rule>
  void run(const Rule& rule) {
    // Outside a graph the whole update is one span.
    std::optional<TimelineSpan> span;
    if (k_.run != nullptr) span.emplace("optimizer", "optimizer");
    const UpdateStep step{in(k_, k_.inputs.size() - 2).template item<double>(),
                          in(k_, k_.inputs.size() - 1).template item<double>()};
    check_distinct();
    lock_next<0>([&](const std::array<at::Tensor, kSlots + 1>& values) {
      check_slots(values);
      if (k_.attrs.flag("sparse")) {
        update_rows(step, values, rule);
      } else {
        update_all(step, values, in(k_, kSlots + 1), rule);
      }
    });
    k_.outputs[0] = cell_of(k_.inputs[0]).read();
  }

 private:
  using Values = std::array<at::Tensor, kSlots + 1>;

  // Each cell is locked once.
  void check_distinct() const {
    for (int i = 0; i <= kSlots; ++i) {
      for (int other = 0; other < i; ++other) {
        if (&cell_of(k_.inputs[i]) != &cell_of(k_.inputs[other])) continue;
        raise(Code::InvalidArgument, "[Optimizer] inputs {} and {} are both variable '{}'", other,
              i, cell_of(k_.inputs[i]).name());
      }
    }
  }

  // Holds the cells' memory one inside the other: the variable first, then its slots.
  template <int i, typename Body>
  void lock_next(const Body& body) {
    cell_of(k_.inputs[i]).update([&](const Tensor& value) {
      values_[i] = aten(value);
      if constexpr (i == kSlots) {
        body(values_);
      } else {
        lock_next<i + 1>(body);
      }
      values_[i] = at::Tensor();
    });
  }

  // The rules go over all arrays side by side. In a graph sizes may be known only now.
  void check_slots(const Values& values) const {
    for (int i = 1; i <= kSlots; ++i) {
      if (values[i].sizes() == values[0].sizes() &&
          values[i].scalar_type() == values[0].scalar_type()) {
        continue;
      }
      raise(Code::InvalidArgument, "[Optimizer] slot {} of variable '{}' does not have its shape",
            i, cell_of(k_.inputs[0]).name());
    }
  }

  template <typename Rule>
  void update_all(const UpdateStep& step, const Values& values, const at::Tensor& gradient,
                  const Rule& rule) {
    if (gradient.sizes() != values[0].sizes()) {
      raise(Code::InvalidArgument,
            "[Optimizer] variable '{}' has {} elements, got a gradient of another shape with {}",
            cell_of(k_.inputs[0]).name(), values[0].numel(), gradient.numel());
    }
    if (k_.inputs.size() > kSlots + 4) return update_with_sum(step, values, rule);
    const at::Tensor dense = gradient.to(values[0].scalar_type()).contiguous();
    apply_to(step, values, dense, 0, 0, dense.numel(), rule);
  }

  // Of more than two terms the sum is made block by block, so that it never leaves the first cache.
  template <typename Rule>
  void update_with_sum(const UpdateStep& step, const Values& values, const Rule& rule) {
    constexpr int64_t kBlock = 2048;
    const std::vector<at::Tensor> terms = flat_terms();
    const at::ScalarType wanted = values[0].scalar_type();
    if (terms.size() == 2 && terms[0].scalar_type() == wanted) {
      return wanted == at::kFloat ? call_with_two<float>(step, values, terms, rule)
                                  : call_with_two<double>(step, values, terms, rule);
    }
    const at::Tensor sum = at::empty({kBlock}, terms[0].options());
    for (int64_t offset = 0; offset < values[0].numel(); offset += kBlock) {
      const int64_t count = std::min(kBlock, values[0].numel() - offset);
      add_up(terms, offset, count, sum);
      apply_to(step, values, sum.scalar_type() == wanted ? sum : sum.to(wanted), offset, 0, count,
               rule);
    }
  }

  template <typename T, typename Rule>
  static void call_with_two(const UpdateStep& step, const Values& values,
                            const std::vector<at::Tensor>& terms, const Rule& rule) {
    rule(step, pointers<T>(values, 0), SumOfTwo<T>{terms[0].data_ptr<T>(), terms[1].data_ptr<T>()},
         values[0].numel());
  }

  // All terms of the gradient as vectors.
  std::vector<at::Tensor> flat_terms() const {
    const at::Tensor& first = in(k_, kSlots + 1);
    std::vector<at::Tensor> terms;
    for (size_t i = kSlots + 1; i + 2 < k_.inputs.size(); ++i) {
      const at::Tensor& term = in(k_, i);
      if (term.sizes() != first.sizes() || term.scalar_type() != first.scalar_type() ||
          (first.scalar_type() != at::kFloat && first.scalar_type() != at::kDouble)) {
        raise(Code::InvalidArgument,
              "[Optimizer] the {} terms of the gradient of variable '{}' must be float32 or "
              "float64, all alike",
              k_.inputs.size() - kSlots - 3, cell_of(k_.inputs[0]).name());
      }
      terms.push_back(term.contiguous().view({-1}));
    }
    return terms;
  }

  static void add_up(const std::vector<at::Tensor>& terms, int64_t from, int64_t count,
                     const at::Tensor& sum) {
    if (sum.scalar_type() == at::kFloat) {
      add_up_as<float>(terms, from, count, sum.data_ptr<float>());
    } else {
      add_up_as<double>(terms, from, count, sum.data_ptr<double>());
    }
  }

  template <typename T>
  static void add_up_as(const std::vector<at::Tensor>& terms, int64_t from, int64_t count, T* sum) {
    const T* first = terms[0].data_ptr<T>() + from;
    const T* second = terms[1].data_ptr<T>() + from;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) sum[i] = first[i] + second[i];
    for (size_t term = 2; term < terms.size(); ++term) {
      const T* next = terms[term].data_ptr<T>() + from;
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) sum[i] += next[i];
    }
  }

  template <typename Rule>
  void update_rows(const UpdateStep& step, const Values& values, const Rule& rule) {
    const UniqueRows unique(in(k_, kSlots + 2), in(k_, kSlots + 1).to(values[0].scalar_type()));
    const RowUpdate rows(cell_of(k_.inputs[0]).name(), values[0], unique.indices, unique.values);
    if (k_.attrs.flag("all_rows")) {
      return apply_to(step, values, unique.among_zeros(values[0]), 0, 0, values[0].numel(), rule);
    }
    for (int64_t i = 0; i < rows.count; ++i) {
      apply_to(step, values, unique.values, rows.rows[i] * rows.width, i * rows.width, rows.width,
               rule);
    }
  }

  // `count` elements from `offset` of the variable and its slots, with the gradient's from `from`.
  template <typename Rule>
  void apply_to(const UpdateStep& step, const Values& values, const at::Tensor& gradient,
                int64_t offset, int64_t from, int64_t count, const Rule& rule) {
    if (values[0].scalar_type() == at::kFloat) {
      call<float>(step, values, gradient, offset, from, count, rule);
    } else if (values[0].scalar_type() == at::kDouble) {
      call<double>(step, values, gradient, offset, from, count, rule);
    } else {
      through_float(step, values, gradient, offset, from, count, rule);
    }
  }

  template <typename T, typename Rule>
  static void call(const UpdateStep& step, const Values& values, const at::Tensor& gradient,
                   int64_t offset, int64_t from, int64_t count, const Rule& rule) {
    rule(step, pointers<T>(values, offset), gradient.data_ptr<T>() + from, count);
  }

  template <typename T>
  static std::array<T*, kSlots + 1> pointers(const Values& values, int64_t offset) {
    std::array<T*, kSlots + 1> all;
    for (int i = 0; i <= kSlots; ++i) all[i] = values[i].template data_ptr<T>() + offset;
    return all;
  }

  template <typename Rule>
  static void through_float(const UpdateStep& step, const Values& values,
                            const at::Tensor& gradient, int64_t offset, int64_t from, int64_t count,
                            const Rule& rule) {
    Values parts;
    Values wide;
    for (int i = 0; i <= kSlots; ++i) {
      parts[i] = values[i].view({-1}).narrow(0, offset, count);
      wide[i] = parts[i].to(at::kFloat);
    }
    call<float>(step, wide, gradient.view({-1}).narrow(0, from, count).to(at::kFloat), 0, 0, count,
                rule);
    for (int i = 0; i <= kSlots; ++i) parts[i].copy_(wide[i]);
  }

  Kernel& k_;
  Values values_;
};

}  // namespace cohort::internal
