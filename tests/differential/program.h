#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cohort/values.h"
#include "cohort/variable.h"

// Random small training programs. A program means the same on any number of workers, so its
// results must not depend on how its replicas are spread over workers, nor on whether it is traced.
namespace cohort::differential {

// Every topology has this many replicas.
constexpr int kReplicas = 4;

enum class Form { Scalar, Vector, Table };
Shape shape_of(Form form);

struct Declaration {
  bool on_read = false;
  VariableAggregation aggregation = VariableAggregation::None;
  Form form = Form::Scalar;
  // Only optimizers and cross-replica writes change a weight, so its copies stay equal.
  bool is_weight = false;
};

// What a replica passes to a write or a reduction.
struct Value {
  enum Kind {
    Literal,         // the C++ number `number`
    OwnLiteral,      // the C++ number `number` + replica id
    SharedTensor,    // one tensor, made outside the replicas
    EqualTensor,     // a tensor each, of equal elements
    OwnTensor,       // elements `number` + replica id
    Input,           // the replica's component of the step's argument
    Read,            // the replica's component of variable `variable`, which has the same form
    Reduced,         // what the last all_reduce of that form gave; zeros before
    EqualComponents  // a PerReplica of equal components, made outside the replicas
  };
  Kind kind = Literal;
  int number = 0;
  int variable = 0;
};

struct Statement {
  enum Kind {
    // In a replica:
    Write,      // assign, assign_add or assign_sub
    Scatter,    // rows that depend on the replica
    AllReduce,  // a value of `form`
    AllGather,  // vectors whose length depends on the replica
    Train,      // gradients of the weights in `mask`, applied by an optimizer
    Branch,     // cond() on the replica's input, of tensors
    BranchAll,  // cond() on what is equal everywhere, around a write
    // Between steps:
    CrossWrite,  // a value that is equal everywhere
    CrossRead,
    Reduce,      // what replicas return
    ReduceRows,  // along an axis whose length depends on the replica
    Gather,
    Epoch,  // over a dataset of `count` numbers in batches of `number`; their sum goes to
            // `variable`
  };
  Kind kind = Write;
  int variable = 0;
  internal::Write write = internal::Write::Assign;
  ReduceOp op = ReduceOp::Sum;
  int scatter = 0;  // add, sub, mul, div, update, min, max
  Form form = Form::Scalar;
  Value value = {};
  int number = 0;
  int count = 0;
  // Bit r of masks[w]: the loss of replica r uses weight w.
  std::array<unsigned, 2> masks = {};
};

// One call of run(), made `inputs.size()` times, or one statement between steps.
struct Round {
  bool is_step = false;
  std::vector<Statement> statements = {};
  std::vector<int> inputs = {};  // replica r gets input + r
};

struct Program {
  uint64_t seed = 0;
  std::vector<Declaration> variables = {};
  std::vector<Round> rounds = {};
};

Program make_program(uint64_t seed);
std::string to_string(const Program& program);

// The smallest program found by leaving out rounds and statements that still `fails`.
Program shrink(Program program, const std::function<bool(const Program&)>& fails);

}  // namespace cohort::differential
