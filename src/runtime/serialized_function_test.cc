#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "cohort/dataset.h"
#include "cohort/ops.h"
#include "data/iterator.h"
#include "graph/serialize_graph.h"
#include "ops/variable_cell.h"
#include "support/expect_error.h"

namespace cohort::internal {
namespace {

data::Dataset ones_dataset() { return data::from_tensor_slices(Tensor({1.f, 1.f, 1.f})); }

Tensor call(const SerializedFunction& function, const std::vector<Tensor>& arguments = {}) {
  return function(arguments).at(0);
}

// Reads the iterator, runs a replica function, updates a variable.
std::string counting_step() {
  Variable v(0.f, {.name = "v"});
  const auto replica = [&](Tensor x) {
    v.assign_add(x);
    return v.read_value();
  };
  const auto step = function([&](Iterator it) { return replica(it.next()); }, {.name = "step"});
  return step.serialize(ones_dataset().iterator());
}

TEST(SerializedFunctionOf, RunsOnIteratorsAndVariablesOfThisProcess) {
  Variable v(0.f);
  const SerializedFunction step(counting_step(), {{"v", v}});
  EXPECT_EQ(step.name(), "step");
  EXPECT_EQ(step.num_arguments(), 1u);
  const Iterator it = ones_dataset().iterator();
  for (const float expected : {1.f, 2.f, 3.f}) {
    EXPECT_EQ(step(it)[0].to<float>(), expected);
  }
  EXPECT_ERROR(Code::OutOfRange, "has no more elements",
               call(step, {internal::Access::handle(it)}));
  EXPECT_EQ(v.read_value().to<float>(), 3.f);
}

TEST(SerializedFunctionOf, LeavesTheProcessThatTracedItAlone) {
  Variable v(5.f, {.name = "v"});
  Iterator it = ones_dataset().iterator();
  const auto step = function([&] { return v.assign_add(it.next()); });
  const SerializedFunction read(step.serialize(), {{"v", Variable(0.f)}});
  EXPECT_EQ(call(read).to<float>(), 1.f);
  EXPECT_EQ(v.read_value().to<float>(), 5.f);
  EXPECT_EQ(step().to<float>(), 6.f);
}

TEST(SerializedFunctionOf, BeginsTheDatasetOfACapturedIterator) {
  Iterator it = data::range(10, 12).iterator();
  it.next();
  const SerializedFunction next(function([&] { return Tensor(it.next()); }).serialize());
  EXPECT_EQ(call(next).to<int64_t>(), 10);
  EXPECT_EQ(call(next).to<int64_t>(), 11);
  EXPECT_ERROR(Code::OutOfRange, "has no more elements", call(next));
  EXPECT_EQ(it.next().to<int64_t>(), 11);
}

TEST(SerializedFunctionOf, IsTheSameBytesAfterReading) {
  Iterator it = data::range(3).batch(2).iterator();
  const std::string bytes = function([&] { return Tensor(it.next()); }).serialize();
  const auto read = deserialize_function(bytes, [&](const CaptureInfo& capture) {
    EXPECT_EQ(capture.kind, CaptureKind::Iterator);
    EXPECT_EQ(capture.dataset, data::range(3).batch(2).serialize());
    return internal::Access::handle(it);
  });
  EXPECT_EQ(serialize_function(*read), bytes);
}

// An iterator for tracing alone: it knows what elements are, and has none.
class KindOfIterator : public data::internal::IteratorBase {
 public:
  std::optional<data::Element> next() override { return std::nullopt; }
  std::string save() override { return {}; }
  std::string describe_dataset() const override { return {}; }

 protected:
  std::optional<data::ElementSpec> find_spec() const override {
    return data::ElementSpec({kFloat32, Shape{-1}});
  }
};

TEST(SerializedFunctionOf, CanBeTracedWithAnIteratorThatHasNoElements) {
  const Iterator any = internal::Access::make<Iterator>(std::make_shared<KindOfIterator>());
  const SerializedFunction total(
      function([](Iterator it) { return sum(it.next().tensor()); }).serialize(any));
  Iterator it = ones_dataset().batch(2).iterator();
  EXPECT_EQ(call(total, {internal::Access::handle(it)}).to<float>(), 2.f);
  EXPECT_EQ(call(total, {internal::Access::handle(it)}).to<float>(), 1.f);
  Iterator whole = ones_dataset().batch(3, {.drop_remainder = true}).iterator();
  EXPECT_EQ(call(total, {internal::Access::handle(whole)}).to<float>(), 3.f);
}

TEST(SerializedFunctionOf, RefusesAnElementOfAnotherShapeThanItWasTracedFor) {
  const Iterator pairs = ones_dataset().batch(2, {.drop_remainder = true}).iterator();
  const SerializedFunction total(
      function([](Iterator it) { return sum(it.next().tensor()); }).serialize(pairs));
  const Iterator it = ones_dataset().batch(2).iterator();
  EXPECT_EQ(call(total, {internal::Access::handle(it)}).to<float>(), 2.f);
  EXPECT_ERROR(Code::InvalidArgument, "is float32 (1,), but the op was made for float32 (2,)",
               call(total, {internal::Access::handle(it)}));
}

TEST(SerializedFunctionOf, RefusesAVariableOfAnotherKind) {
  EXPECT_ERROR(
      Code::InvalidArgument,
      "'step' was traced with variable 'v' of float32 (), but here the variable is int32 (2,)",
      SerializedFunction(counting_step(), {{"v", Variable(Tensor({1, 2}))}}));
}

TEST(SerializedFunctionOf, RefusesArgumentsThatItWasNotTracedFor) {
  const SerializedFunction step(counting_step(), {{"v", Variable(0.f)}});
  EXPECT_ERROR(Code::InvalidArgument, "'step' takes 1 tensors, got 0", call(step));
  EXPECT_ERROR(Code::InvalidArgument, "argument 0 of 'step' was traced as resource (), got float32",
               call(step, {Tensor(1.f)}));
  EXPECT_ERROR(Code::InvalidArgument, "gives Tensor of (int64 ()), but the op was made for",
               call(step, {internal::Access::handle(data::range(3).iterator())}));
  const Tensor variable = make_resource(std::make_shared<VariableCell>("v", Tensor(0.f)));
  EXPECT_ERROR(Code::InvalidArgument, "the handle is not an iterator's", call(step, {variable}));
  const SerializedFunction on_tensor(
      function([](Tensor x) { return x * 2.f; }).serialize(Tensor({1.f, 2.f})));
  EXPECT_ERROR(Code::InvalidArgument, "was traced as float32 (2,), got float32 (3,)",
               call(on_tensor, {Tensor({1.f, 2.f, 3.f})}));
}

TEST(SerializedFunctionOf, RefusesBytesThatAreCutOffAnywhere) {
  // The second one holds functions, and between two of them nothing is torn.
  const auto branching = function([](Tensor x) {
    return cond(
        sum(x) > 0, [&] { return std::vector<Tensor>{x * 2.f}; },
        [&] { return std::vector<Tensor>{x}; });
  });
  const Variable v(0.f);
  for (const std::string& whole : {counting_step(), branching.serialize(Tensor(1.f))}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_ERROR(Code::InvalidArgument, "[Graph]",
                   SerializedFunction(std::string_view(whole).substr(0, size), {{"v", v}}));
    }
    EXPECT_NO_THROW(SerializedFunction(whole, {{"v", v}}));
  }
}

TEST(SerializedFunctionOf, ReadsDamagedBytesWithoutHarm) {
  Iterator it = data::range(3).batch(2).iterator();
  const std::string whole = function([&] { return Tensor(it.next()); }).serialize();
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const char mask : {'\x01', '\x10', '\x7f'}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      const Status status = capture_status([&] { SerializedFunction read(damaged); });
      EXPECT_TRUE(status.ok() || status.code == Code::InvalidArgument ||
                  status.code == Code::FailedPrecondition || status.code == Code::NotFound ||
                  status.code == Code::Unimplemented)
          << status.to_string();
    }
  }
}

TEST(SerializedFunctionOf, NamesWhatCannotBeSerialized) {
  Iterator it = data::range(3).map([](Tensor x) { return x + int64_t{1}; }).iterator();
  const auto captures = function([&] { return Tensor(it.next()); }, {.name = "step"});
  EXPECT_ERROR(Code::FailedPrecondition, "function 'step' uses iterator 'iterator_",
               captures.serialize());
  EXPECT_ERROR(Code::FailedPrecondition, "data::register_function()", captures.serialize());
  // As an argument it stays here; the reader supplies its own.
  EXPECT_NO_THROW(function([](Iterator from) { return Tensor(from.next()); }).serialize(it));
}

// Several functions agree on which of them is which.
TEST(SerializedFunctionOf, NamesTwoVariablesOfOneLabel) {
  Variable a(1.f, {.name = "w"});
  Variable b(2.f, {.name = "w"});
  const auto names = [](const std::string& bytes) {
    std::vector<std::string> all;
    for (const FunctionVariable& each : SerializedFunction::variables(bytes)) {
      all.push_back(each.name);
    }
    return all;
  };
  const std::string both = function([&] {
                             const Tensor first = a;
                             return first + b * 10.f;
                           }).serialize();
  EXPECT_EQ(names(both), (std::vector<std::string>{"w", "w_1"}));
  EXPECT_EQ(names(function([&] { return b * 2.f; }).serialize()), std::vector<std::string>{"w_1"});
  const SerializedFunction sum(both, {{"w", Variable(5.f)}, {"w_1", Variable(7.f)}});
  EXPECT_EQ(sum()[0].to<float>(), 75);
}

TEST(SerializedFunctionOf, AModelRunsOnAnotherModelsVariables) {
  const nn::Sequential model{nn::Dense(2, 3), nn::tanh, nn::Dense(3, 1)};
  const auto predict = function([&](const Tensor& x) { return model(x); }, {.name = "predict"});
  const std::string bytes = predict.serialize(ones({4, 2}));

  std::map<std::string, Variable> copies;
  const std::vector<Variable> originals = model.variables();
  const std::vector<FunctionVariable> needed = SerializedFunction::variables(bytes);
  ASSERT_EQ(needed.size(), originals.size());
  for (size_t i = 0; i < needed.size(); ++i) {
    EXPECT_EQ(needed[i].dtype, kFloat32);
    EXPECT_EQ(needed[i].shape, originals[i].shape());
    copies.emplace(needed[i].name, Variable(originals[i].read_value()));
  }
  EXPECT_EQ(needed[2].name, needed[0].name + "_1");
  const SerializedFunction loaded(bytes, copies);
  EXPECT_EQ(loaded.name(), "predict");
  EXPECT_EQ(loaded.num_arguments(), 1u);
  const Tensor x = reshape(range(0., 8., 1.), {4, 2});
  EXPECT_EQ(loaded({x})[0].to_vector<float>(), predict(x).to_vector<float>());

  // The variables are those given, for changes and for gradients.
  Variable kernel = copies.at(needed[0].name);
  GradientTape tape;
  const Tensor total = sum(loaded({x})[0]);
  EXPECT_EQ(tape.gradient(total, kernel).dense().shape(), kernel.shape());
  kernel.assign(zeros({2, 3}));
  EXPECT_NE(loaded({x})[0].to_vector<float>(), predict(x).to_vector<float>());

  EXPECT_ERROR(Code::InvalidArgument, "'predict' was traced as float32 (4, 2), got float32 (4, 3)",
               loaded({ones({4, 3})}));
  copies.erase(needed[1].name);
  EXPECT_ERROR(Code::NotFound, "'predict' uses variable 'dense/bias",
               SerializedFunction(bytes, copies));
  copies.emplace(needed[1].name, Variable(1.f));
  EXPECT_ERROR(Code::InvalidArgument, "but here the variable is float32 ()",
               SerializedFunction(bytes, copies));
  EXPECT_ERROR(Code::InvalidArgument, "", SerializedFunction(bytes.substr(0, 40)));
}

}  // namespace
}  // namespace cohort::internal
