#include "cohort/variable.h"
#include "conformance/op_example.h"
#include "ops/op.h"
#include "ops/variable_cell.h"
#include "ops/variable_ops.h"
#include "support/find_op.h"

// Ops that change variables: what they compute is tested with Variable and the optimizers; here
// their inference is.
namespace cohort::testing {
namespace {

using Use = std::function<void(const Tensor& handle, const internal::Attrs& attrs)>;

// An op on the handle of a variable of shape (2, 2).
OpExample on_variable(std::string_view op, Use use) {
  return {.op = op,
          .inputs = {},
          .call =
              [=](std::span<const Tensor>) {
                const Variable variable({{1.0, 2.0}, {3.0, 4.0}});
                use(internal::VariableAccess::impl(variable)->handle().handle,
                    {{"dtype", kFloat64}, {"shape", Shape{2, 2}}});
                return Tensors{};
              },
          .shapes_only = true};
}

OpExample with_value(std::string_view op, const Tensor& value) {
  return on_variable(op, [=](const Tensor& handle, const internal::Attrs& attrs) {
    internal::apply(internal::find_op(op), {handle, value}, attrs);
  });
}

// An optimizer's update, for a dense and for a sparse gradient.
OpExample update(std::string_view op, size_t slots, const internal::Attrs& constants) {
  return on_variable(op, [=](const Tensor& handle, const internal::Attrs& attrs) {
    for (const bool sparse : {false, true}) {
      Tensors inputs{handle};
      for (size_t i = 0; i < slots; ++i) {
        const Variable slot(zeros({2, 2}, kFloat64));
        inputs.push_back(internal::VariableAccess::impl(slot)->handle().handle);
      }
      inputs.push_back(ones({sparse ? 1 : 2, 2}, kFloat64));
      if (sparse) inputs.push_back(Tensor({int64_t{1}}));
      inputs.push_back(Tensor(0.1));
      inputs.push_back(Tensor(int64_t{1}));
      internal::Attrs all = constants;
      for (const auto& [name, value] : attrs.entries()) all.set(name, value);
      all.set("sparse", sparse);
      all.set("all_rows", sparse);
      internal::apply(internal::find_op(op), inputs, all, {});
    }
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
      on_variable("ReadVariable",
                  [](const Tensor& handle, const internal::Attrs& attrs) {
                    internal::Attrs all = attrs;
                    all.set("trainable", true);
                    internal::apply(internal::find_op("ReadVariable"), {handle}, all);
                  }),
      on_variable(
          "ReadRows",
          [](const Tensor& handle, const internal::Attrs& attrs) {
            internal::apply(internal::find_op("ReadRows"), {handle, Tensor({1, 0, 1})}, attrs);
          }),
      {.op = "RowsInRange",
       .inputs = {Tensor({5, 2, 9, 3})},
       .call =
           [](std::span<const Tensor> in) {
             return internal::apply_many(internal::find_op("RowsInRange"), in,
                                         {{"begin", int64_t{2}}, {"end", int64_t{6}}}, {});
           },
       .torch = [](const std::vector<at::Tensor>& in) -> std::vector<at::Tensor> {
         const at::Tensor inside = (in[0] >= 2).logical_and(in[0] < 6);
         return {in[0].index({inside}).to(at::kLong) - 2, inside.nonzero().view({-1})};
       },
       .typed_inputs = {}},
      on_variable("VariableIsInitialized",
                  [](const Tensor& handle, const internal::Attrs&) {
                    internal::apply(internal::find_op("VariableIsInitialized"), {handle}, {});
                  }),
      with_value("AssignVariable", ones({2, 2}, kFloat64)),
      with_value("AssignAddVariable", ones({2, 2}, kFloat64)),
      with_value("AssignSubVariable", ones({2, 2}, kFloat64)),
      on_variable("ScatterVariable",
                  [](const Tensor& handle, const internal::Attrs& attrs) {
                    internal::Attrs all = attrs;
                    all.set("op", int64_t{1});
                    internal::apply(internal::find_op("ScatterVariable"),
                                    {handle, Tensor({int64_t{0}}), ones({1, 2}, kFloat64)}, all);
                  }),
      update("ApplySgd", 0, {{"weight_decay", 0.0}}),
      update(
          "ApplyMomentum", 1,
          {{"weight_decay", 0.0}, {"momentum", 0.9}, {"nesterov", false}, {"tensorflow", false}}),
      update("ApplyAdam", 2,
             {{"beta1", 0.9},
              {"beta2", 0.999},
              {"epsilon", 1e-8},
              {"weight_decay", 0.0},
              {"decoupled", false},
              {"tensorflow", false}}),
      update("ApplyAdagrad", 1, {{"epsilon", 1e-10}, {"weight_decay", 0.0}, {"tensorflow", true}}),
      update("ApplyRmsProp", 3,
             {{"rho", 0.99},
              {"epsilon", 1e-8},
              {"momentum", 0.0},
              {"weight_decay", 0.0},
              {"centered", false},
              {"tensorflow", false}}),
      update("ApplyFtrl", 2, {{"learning_rate_power", -0.5}, {"l1", 0.0}, {"l2", 0.0}}),
  };
}

}  // namespace cohort::testing
