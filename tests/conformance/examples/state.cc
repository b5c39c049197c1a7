#include "cohort/optim.h"
#include "conformance/op_example.h"
#include "ops/merge_rows.h"

// Ops that change variables: what they compute is tested with Variable and the optimizers; here
// their inference is.
namespace cohort::testing {
namespace {

OpExample on_variable(std::string_view op, std::function<void(Variable&)> change) {
  return {.op = op,
          .inputs = {},
          .call =
              [=](std::span<const Tensor>) {
                Variable variable({{1.0, 2.0}, {3.0, 4.0}});
                change(variable);
                return Tensors{};
              },
          .shapes_only = true};
}

template <typename Optimizer, typename Options>
OpExample update(std::string_view op, const Options& options) {
  return on_variable(op, [=](Variable& variable) {
    Optimizer optimizer(options);
    optimizer.apply_gradients({Gradient(ones({2, 2}, kFloat64))}, {variable});
    optimizer.apply_gradients(
        {Gradient(IndexedSlices{ones({1, 2}, kFloat64), Tensor({int64_t{1}}), {2, 2}})},
        {variable});
  });
}

OpExample merging() {
  return {.op = "MergeRows",
          .inputs = {Tensor({2, 0, 2}), Tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}})},
          .call =
              [](std::span<const Tensor> in) {
                const IndexedSlices merged = internal::merge_rows({in[1], in[0], {3, 2}});
                return Tensors{merged.indices, merged.values};
              },
          .more_inputs = {{zeros({0}, kInt64), zeros({0, 2}, kFloat64)},
                          {Tensor({1, 1}), Tensor({1.0, 2.0})}},
          .bad_calls = {{[] {
                           internal::merge_rows({ones({2, 3}), Tensor({1}), {4, 3}});
                         },
                         "[MergeRows] the values must have shape (1, 3), got (2, 3)"},
                        {[] {
                           internal::merge_rows({ones({1}), Tensor({1.f}), {4}});
                         },
                         "the indices must be integers"},
                        {[] {
                           internal::merge_rows({ones({1}), Tensor(1), {4}});
                         },
                         "the indices"}}};
}

}  // namespace

std::vector<OpExample> state_examples() {
  return {
      merging(),
      on_variable("AssignVariable",
                  [](Variable& v) {
                    v.assign(ones({2, 2}, kFloat64));
                  }),
      on_variable("AssignAddVariable", [](Variable& v) { v.assign_add(1.0); }),
      on_variable("AssignSubVariable", [](Variable& v) { v.assign_sub(1.0); }),
      on_variable("ScatterVariable",
                  [](Variable& v) {
                    v.scatter_add({ones({1, 2}, kFloat64), Tensor({int64_t{0}}), {2, 2}});
                  }),
      update<optim::Sgd>("ApplySgd", optim::SgdOptions{}),
      update<optim::Sgd>("ApplyMomentum", optim::SgdOptions{.momentum = 0.9}),
      update<optim::Adam>("ApplyAdam", optim::AdamOptions{}),
      update<optim::Adagrad>("ApplyAdagrad", optim::AdagradOptions{}),
      update<optim::RmsProp>("ApplyRmsProp", optim::RmsPropOptions{}),
      update<optim::Ftrl>("ApplyFtrl", optim::FtrlOptions{}),
  };
}

}  // namespace cohort::testing
