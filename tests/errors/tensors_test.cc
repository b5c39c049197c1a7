#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "cohort/sharded_variable.h"
#include "errors/catalogue.h"

namespace cohort::test {
namespace {

TEST(Errors, OfTensorsAndOperations) {
  const Tensor x({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}});
  check_section(
      "Tensors and operations",
      {
          {[] { Tensor().shape(); }, "Assign a value to the tensor before its first use."},
          {[] {
             Tensor({{1, 2}, {3}});
           },
           "Pad the shorter rows."},
          {[] {
             Tensor::from(std::vector<float>{1, 2, 3}, {2, 2});
           },
           "Give as many values as the shape has elements."},
          {[] {
            Shape({2, -3});
          }},
          {[&] { (void)x.to<float>(); },
           "Reduce the tensor, or read all values with `to_vector<T>()`."},
          {[&] {
             (void)x.at<float>({2, 0});
           },
           "Indices start at 0."},
          {[] { (void)Tensor(300).to<int8_t>(); }, "Read the value as a wider type."},
          {[&] { (void)x.data<int32_t>(); }},
          {[] { parse_dtype("float"); }},
          {[&] {
             (void)(x + Tensor({1.f, 2.f}));
           },
           "Sizes must be equal or 1: `reshape()` or `expand_dims()` one of the two."},
          {[&] { (void)(x + Tensor("a")); }, "`cast()` numbers; strings have no arithmetic."},
          {[&] { matmul(x, x); },
           "Transpose one of the two: `matmul(x, y, {.transpose_b = true})`."},
          {[&] { reshape(x, {4}); }, "Give a shape of as many elements; -1 stands for one size."},
          {[&] { sum(x, {2}); }, "Axes are 0 to rank - 1, or negative from the end."},
          {[&] {
             concat({x, Tensor({{1.f}})}, 1);
           },
           "Only the sizes along the axis may differ."},
          {[&] { split(x, 2, 1); },
           "Choose a number of parts that divides the size, or give sizes."},
          {[&] { gather(x, Tensor({5})); }, "Indices start at 0."},
          {[&] { (void)x[7]; }, "Indices start at 0."},
          {[&] { where(x, x, x); }, "Compare first: `where(x > 0.f, a, b)`."},
          {[] { (void)(floor_div(Tensor(1), Tensor(0))); },
           "Test the divisor, or compute with floats."},
          {[&] { transpose(x, {0}); }, "Name each dimension once."},
          {[&] { squeeze(x, {0}); }, "Leave the dimension out; only those of size 1 can go."},
          {[&] { top_k(x, 5); }, "Choose a smaller k."},
          {[] { (void)range(0, 5, 0); }},
          {[] { one_hot(Tensor({1.f}), 3); }, "`cast()` the ids to an integer dtype."},
          {[&] { check_numerics(x / 0.f, "the loss"); },
           "Look for a division by 0 or the logarithm of 0, or lower the learning rate."},
          {[] { random::uniform({2}, {.low = 3, .high = 1}); }},
          {[] {
             nn::conv2d(ones({1, 3, 8, 8}), ones({4, 1, 3, 3}));
           },
           "The kernel's second size must be the input's channels, divided by the groups."},
          {[] {
             nn::max_pool2d(ones({1, 1, 2, 2}), 3);
           },
           "Choose a smaller window, or pad."},
          {[] { const auto scope = device("gpu-0"); }},
          {[] {
             const auto scope = device("GPU:99");
             (void)(Tensor(1.f) + 1.f);
           },
           "Choose a device of the list, which `list_devices()` also returns."},
      });
}

TEST(Errors, OfGradients) {
  Variable v({1.f, 2.f}, {.name = "v"});
  check_section(
      "Gradients",
      {
          {[&] {
            GradientTape tape;
            const Tensor y = sum(v.read_value());
            tape.gradient(y, v);
            tape.gradient(y, v);
          }},
          {[] {
            GradientTape tape;
            tape.watch(Tensor(1));
          }},
          {[&] {
            GradientTape tape;
            (void)tape.gradient(Tensor(1.f) * 2.f, v).dense();
          }},
          {[&] {
             GradientTape tape;
             tape.gradient(sum(v.read_value()), v, {.output_gradients = {Tensor({1.f, 2.f, 3.f})}});
           },
           "Give a gradient of the target's shape."},
      });
}

TEST(Errors, OfVariables) {
  Variable v({1.f, 2.f}, {.name = "v"});
  Variable counts({1, 2}, {.name = "counts"});
  Variable table({{1.f, 2.f}, {3.f, 4.f}}, {.name = "table"});
  check_section("Variables",
                {
                    {[] { (void)Variable().read_value(); }},
                    {[&] {
                       v.assign(Tensor({1.f, 2.f, 3.f}));
                     },
                     "Assign a value of the variable's shape."},
                    {[&] {
                      counts.assign(Tensor({1.5f, 2.f}));
                    }},
                    {[&] {
                       table.scatter_add({.values = Tensor({{1.f, 1.f}}),
                                          .indices = Tensor({int64_t{7}}),
                                          .dense_shape = {2, 2}});
                     },
                     "Row numbers start at 0."},
                    {[] { Variable(Initializer(), {.name = "w"}); },
                     "Give a function that makes the first value."},
                    {[] {
                       Variable(Tensor({1.f, 2.f}), {.name = "w", .shape = {3}});
                     },
                     "Leave `.shape` out, or give an initial value of that shape."},
                    {[] { ShardedVariable(std::vector<Variable>{}); }},
                    {[] { FixedShardsPartitioner(0)(Shape({4}), kFloat32); }},
                    {[] { MaxSizePartitioner({.max_shard_bytes = 0})(Shape({4}), kFloat32); }},
                });
}

}  // namespace
}  // namespace cohort::test
