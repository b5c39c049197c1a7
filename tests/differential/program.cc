#include "differential/program.h"

#include <fmt/format.h>

#include <random>

namespace cohort::differential {
namespace {

using enum VariableAggregation;

// The same numbers on every platform, which std::uniform_int_distribution does not promise.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  int below(int limit) { return static_cast<int>(engine_() % static_cast<uint64_t>(limit)); }
  bool one_in(int n) { return below(n) == 0; }
  template <typename T, size_t n>
  T of(const T (&options)[n]) {
    return options[below(static_cast<int>(n))];
  }

 private:
  std::mt19937_64 engine_;
};

constexpr Form kForms[] = {Form::Scalar, Form::Vector, Form::Table};
constexpr VariableAggregation kAggregations[] = {None, Sum, Mean, OnlyFirstReplica};
constexpr internal::Write kWrites[] = {internal::Write::Assign, internal::Write::AssignAdd,
                                       internal::Write::AssignSub};
constexpr ReduceOp kOps[] = {ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Min, ReduceOp::Max};

// Two weights first, then other variables.
std::vector<Declaration> declare(Dice& dice) {
  std::vector<Declaration> all{{.form = dice.of(kForms), .is_weight = true},
                               {.form = Form::Vector, .is_weight = true}};
  for (int more = 2 + dice.below(3); more > 0; --more) {
    all.push_back({.on_read = dice.one_in(3),
                   .aggregation = dice.of(kAggregations),
                   .form = dice.of(kForms)});
  }
  return all;
}

class Maker {
 public:
  explicit Maker(uint64_t seed) : dice_(seed) {
    program_.seed = seed;
    program_.variables = declare(dice_);
  }

  Program make() {
    for (int more = 2 + dice_.below(4); more > 0; --more) {
      program_.rounds.push_back(dice_.one_in(3) ? between_steps() : step());
    }
    return std::move(program_);
  }

 private:
  const Declaration& declaration(int variable) const {
    return program_.variables[static_cast<size_t>(variable)];
  }
  int any_variable() { return 2 + dice_.below(static_cast<int>(program_.variables.size()) - 2); }

  Value value(Form form) {
    static constexpr Value::Kind kKinds[] = {Value::SharedTensor, Value::EqualTensor,
                                             Value::OwnTensor,    Value::Input,
                                             Value::Read,         Value::Reduced};
    Value made{.kind = dice_.of(kKinds), .number = 1 + dice_.below(5)};
    if (made.kind != Value::Read) return made;
    std::vector<int> fitting;
    for (size_t i = 0; i < program_.variables.size(); ++i) {
      if (program_.variables[i].form == form) fitting.push_back(static_cast<int>(i));
    }
    if (fitting.empty()) return {.kind = Value::OwnTensor, .number = made.number};
    made.variable = fitting[static_cast<size_t>(dice_.below(static_cast<int>(fitting.size())))];
    return made;
  }

  // Some writes are errors, which end the program: most programs should live longer.
  Value value_to_write(const Declaration& target) {
    static constexpr Value::Kind kScalars[] = {Value::Literal, Value::OwnLiteral,
                                               Value::EqualComponents};
    if (target.form != Form::Scalar || !dice_.one_in(2)) return value(target.form);
    const Value made{.kind = dice_.of(kScalars), .number = 1 + dice_.below(5)};
    const bool ends = made.kind == Value::EqualComponents
                          ? target.on_read || target.aggregation == None
                          : !target.on_read && target.aggregation == Sum;
    return ends && !dice_.one_in(8) ? value(target.form) : made;
  }

  Statement write() {
    const int variable = any_variable();
    return {.kind = Statement::Write,
            .variable = variable,
            .write = dice_.of(kWrites),
            .value = value_to_write(declaration(variable))};
  }

  // Rows of variables that cannot be scattered are an error, too.
  Statement scatter() {
    for (size_t i = 2; i < program_.variables.size(); ++i) {
      const Declaration& each = program_.variables[i];
      if (each.form != Form::Table || (each.on_read && !dice_.one_in(10))) continue;
      const bool merges = each.aggregation == Sum || each.aggregation == Mean;
      const int ops = merges && !dice_.one_in(10) ? 4 : 7;
      return {.kind = Statement::Scatter,
              .variable = static_cast<int>(i),
              .scatter = dice_.below(ops),
              .number = 1 + dice_.below(3)};
    }
    return write();
  }

  // Each replica uses one of the weights, maybe both; replicas may differ in which.
  Statement train() {
    constexpr unsigned kAll = (1u << kReplicas) - 1;
    Statement made{.kind = Statement::Train, .number = 1 + dice_.below(3), .masks = {kAll, kAll}};
    constexpr unsigned kPicked[] = {kAll, kAll,   kAll,   kAll,   0,     0,
                                    0b11, 0b1100, 0b0101, 0b1010, 0b110, 0b1001};
    // Where only one of two workers has replicas that differ, the other one waits two seconds to
    // learn of it: too long for many programs.
    constexpr unsigned kOnOneWorker[] = {0b0001, 0b1000, 0b0111, 0b1110};
    made.masks[static_cast<size_t>(dice_.below(2))] =
        dice_.one_in(500) ? dice_.of(kOnOneWorker) : dice_.of(kPicked);
    return made;
  }

  Statement in_replica() {
    const int pick = dice_.below(12);
    if (pick < 5) return write();
    if (pick < 6) return scatter();
    if (pick < 8) {
      const Form form = dice_.of(kForms);
      return {
          .kind = Statement::AllReduce, .op = dice_.of(kOps), .form = form, .value = value(form)};
    }
    if (pick < 9) return {.kind = Statement::AllGather, .number = 1 + dice_.below(3)};
    if (pick < 11) return train();
    Statement made = write();
    if (dice_.one_in(2)) return {.kind = Statement::Branch, .number = 1 + dice_.below(6)};
    made.kind = Statement::BranchAll;
    made.number = dice_.below(2);
    return made;
  }

  Round step() {
    Round round{.is_step = true};
    for (int more = 1 + dice_.below(4); more > 0; --more) round.statements.push_back(in_replica());
    for (int more = 1 + dice_.below(2); more > 0; --more) round.inputs.push_back(dice_.below(7));
    return round;
  }

  Statement cross_write() {
    const int variable = dice_.below(static_cast<int>(program_.variables.size()));
    const Declaration& target = declaration(variable);
    const bool refused =
        target.on_read && (target.aggregation == None || target.aggregation == Sum);
    if (refused && !dice_.one_in(8)) return {.kind = Statement::Reduce, .op = dice_.of(kOps)};
    return {.kind = Statement::CrossWrite,
            .variable = variable,
            .write = dice_.of(kWrites),
            .value = {.kind = Value::EqualTensor, .number = 4 * (1 + dice_.below(3))}};
  }

  // A variable whose copies are its replicas' own has no one value that all workers read.
  Statement cross_read() {
    const int variable = dice_.below(static_cast<int>(program_.variables.size()));
    const Declaration& target = declaration(variable);
    const bool differs = !target.is_weight && target.aggregation == None;
    if (differs && !(target.on_read && dice_.one_in(8))) {
      return {.kind = Statement::Gather, .number = 1 + dice_.below(3)};
    }
    return {.kind = Statement::CrossRead, .variable = variable};
  }

  Round between_steps() {
    const int pick = dice_.below(7);
    Statement made;
    if (pick < 2) {
      made = {.kind = Statement::Reduce, .op = dice_.of(kOps), .number = dice_.below(3)};
    } else if (pick == 2) {
      made = {.kind = Statement::ReduceRows, .op = dice_.of(kOps), .number = 1 + dice_.below(3)};
    } else if (pick == 3) {
      made = {.kind = Statement::Epoch, .number = 1 + dice_.below(9), .count = dice_.below(30)};
    } else if (pick == 4) {
      made = cross_write();
    } else {
      made = cross_read();
    }
    return {.is_step = false, .statements = {made}};
  }

  Dice dice_;
  Program program_;
};

constexpr const char* kFormNames[] = {"scalar", "vector", "table"};
constexpr const char* kAggregationNames[] = {"None", "Sum", "Mean", "OnlyFirstReplica"};
constexpr const char* kWriteNames[] = {"assign", "assign_add", "assign_sub"};
constexpr const char* kScatterNames[] = {"add", "sub", "mul", "div", "update", "min", "max"};

template <typename Enum, size_t n>
const char* name_in(const char* const (&names)[n], Enum value) {
  return names[static_cast<size_t>(value)];
}

std::string to_string(const Value& value) {
  switch (value.kind) {
    case Value::Literal:
      return fmt::format("the literal {}", value.number);
    case Value::OwnLiteral:
      return fmt::format("the literal {} + id", value.number);
    case Value::SharedTensor:
      return fmt::format("one shared tensor of {}", value.number);
    case Value::EqualTensor:
      return fmt::format("a tensor of {}", value.number);
    case Value::OwnTensor:
      return fmt::format("a tensor of {} + id", value.number);
    case Value::Input:
      return "the input";
    case Value::Read:
      return fmt::format("v{}", value.variable);
    case Value::Reduced:
      return "what was reduced last";
    case Value::EqualComponents:
      return fmt::format("a PerReplica of {}", value.number);
  }
  return "";
}

std::string to_string(const Statement& s) {
  switch (s.kind) {
    case Statement::BranchAll:
    case Statement::Write:
    case Statement::CrossWrite:
      return fmt::format("{}v{}.{}({})",
                         s.kind == Statement::BranchAll ? fmt::format("cond({}): ", s.number) : "",
                         s.variable, name_in(kWriteNames, s.write), to_string(s.value));
    case Statement::Scatter:
      return fmt::format("v{}.scatter_{}(row id and row 1: {} + id)", s.variable,
                         kScatterNames[s.scatter], s.number);
    case Statement::AllReduce:
      return fmt::format("all_reduce({}, {}) of a {}", cohort::to_string(s.op), to_string(s.value),
                         name_in(kFormNames, s.form));
    case Statement::AllGather:
      return fmt::format("all_gather(id + 1 times {} + id)", s.number);
    case Statement::Train:
      return fmt::format("apply_gradients({} + id), v0 in replicas {:04b}, v1 in {:04b}", s.number,
                         s.masks[0], s.masks[1]);
    case Statement::Branch:
      return fmt::format("cond(input > {})", s.number);
    case Statement::CrossRead:
      return fmt::format("read v{}", s.variable);
    case Statement::Reduce:
      return fmt::format("reduce({}, {})", cohort::to_string(s.op),
                         s.number == 0 ? "equal values" : "own values");
    case Statement::ReduceRows:
      return fmt::format("reduce({}, id % 3 rows of {} + id, axis 0)", cohort::to_string(s.op),
                         s.number);
    case Statement::Gather:
      return fmt::format("gather(id + 1 times {} + id)", s.number);
    case Statement::Epoch:
      return fmt::format("sum of range({}).batch({})", s.count, s.number);
  }
  return "";
}

bool still_fails(const Program& program, const std::function<bool(const Program&)>& fails) {
  return !program.rounds.empty() && fails(program);
}

}  // namespace

Shape shape_of(Form form) {
  if (form == Form::Scalar) return {};
  return form == Form::Vector ? Shape{3} : Shape{4, 2};
}

Program make_program(uint64_t seed) { return Maker(seed).make(); }

std::string to_string(const Program& program) {
  std::string text = fmt::format("seed {}\n", program.seed);
  for (size_t i = 0; i < program.variables.size(); ++i) {
    const Declaration& each = program.variables[i];
    text += fmt::format("  v{}: {} {} {}\n", i, name_in(kFormNames, each.form),
                        each.is_weight ? "weight" : (each.on_read ? "OnRead" : "OnWrite"),
                        name_in(kAggregationNames, each.aggregation));
  }
  for (const Round& round : program.rounds) {
    if (round.is_step) text += fmt::format("  run, {} times:\n", round.inputs.size());
    for (const Statement& statement : round.statements) {
      text += fmt::format("  {}{}\n", round.is_step ? "  " : "", to_string(statement));
    }
  }
  return text;
}

Program shrink(Program program, const std::function<bool(const Program&)>& fails) {
  for (size_t i = program.rounds.size(); i-- > 0;) {
    Program shorter = program;
    shorter.rounds.erase(shorter.rounds.begin() + static_cast<std::ptrdiff_t>(i));
    if (still_fails(shorter, fails)) {
      program = std::move(shorter);
      continue;
    }
    for (size_t k = program.rounds[i].statements.size();
         program.rounds[i].statements.size() > 1 && k-- > 0;) {
      shorter = program;
      auto& statements = shorter.rounds[i].statements;
      statements.erase(statements.begin() + static_cast<std::ptrdiff_t>(k));
      if (still_fails(shorter, fails)) program = std::move(shorter);
    }
  }
  return program;
}

}  // namespace cohort::differential
