#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "cohort/gradient.h"
#include "cohort/site.h"
#include "ops/attrs.h"

namespace cohort::internal {

// Dtype and shape of one output, known before anything is computed.
struct Spec {
  DType dtype;
  Shape shape;
};
using Specs = std::vector<Spec>;

// What an op may be asked about its inputs without their values; a concrete input has those too.
struct OpInputs {
  std::string_view op;  // the op's name, for messages
  std::span<const Tensor> tensors;
  const Attrs& attrs;

  const Tensor& operator[](size_t i) const { return tensors[i]; }
  size_t size() const { return tensors.size(); }
  const Shape& shape(size_t i) const;
  DType dtype(size_t i) const;
};

class RunContext;  // ops/run_context.h

// One execution of an op on concrete inputs.
struct Kernel {
  std::span<const Tensor> inputs;
  const Attrs& attrs;
  std::span<Tensor> outputs;
  RunContext* run = nullptr;  // the graph run that it is part of; null when called at once
};

struct OpCall;

// A set of dtypes, as the bits 1 << dtype.
struct DTypeSet {
  uint16_t bits = 0;
  constexpr bool has(DType dtype) const { return ((bits >> static_cast<int>(dtype)) & 1) != 0; }
  constexpr DTypeSet operator|(DTypeSet other) const {
    return {static_cast<uint16_t>(bits | other.bits)};
  }
  // "float16, bfloat16, float32, float64"
  std::string to_string() const;
};
inline constexpr DTypeSet kFloatTypes{0x000f};
inline constexpr DTypeSet kIntegerTypes{0x01f0};
inline constexpr DTypeSet kBoolType{0x0200};
inline constexpr DTypeSet kStringType{0x0400};
inline constexpr DTypeSet kResourceType{0x0800};
inline constexpr DTypeSet kNumberTypes = kFloatTypes | kIntegerTypes;
inline constexpr DTypeSet kNumericTypes = kNumberTypes | kBoolType;
inline constexpr DTypeSet kAnyType = kNumericTypes | kStringType;

// How many inputs an op takes.
struct InputCount {
  constexpr InputCount(int exactly) : InputCount(exactly, exactly) {}
  constexpr InputCount(int at_least, int at_most) : least(at_least), most(at_most) {}

  int least;
  int most;
};
inline constexpr int kAnyNumber = std::numeric_limits<int>::max();

// What passes over graphs ask of an op. They do not ask for its name.
enum class Trait : uint16_t {
  OneDType = 1 << 0,     // all inputs have the same dtype
  ReadsState = 1 << 1,   // gives what state is now, and changes none
  HasEffect = 1 << 2,    // changes state, or does something that is seen outside of the graph
  Source = 1 << 3,       // gives a value that comes from outside of the graph
  Placeholder = 1 << 4,  // is there to be fed
  Random = 1 << 5,       // gives other values for another key
  MayWait = 1 << 6,      // waits for what another run does, or runs code of the user's
  ShapeOnly = 1 << 7,    // looks at the shape of its input, not at the values
  HostOnly = 1 << 8,     // computes in the host's memory, whatever the device
};

class Traits {
 public:
  constexpr Traits() = default;
  constexpr Traits(Trait one) : bits_(static_cast<uint16_t>(one)) {}

  constexpr bool has(Trait one) const { return (bits_ & static_cast<uint16_t>(one)) != 0; }
  constexpr Traits operator|(Trait one) const {
    Traits both = one;
    both.bits_ |= bits_;
    return both;
  }

 private:
  uint16_t bits_ = 0;
};
constexpr Traits operator|(Trait a, Trait b) { return Traits(a) | b; }

// Everything about one operation, in one constant. The library knows it by nothing else;
// op_list.inc lists the constants.
struct OpDef {
  std::string_view name;
  InputCount inputs;
  // What every input may be; an op whose inputs differ in kind checks the rest in `infer`.
  DTypeSet dtypes;
  AttrList attrs = {};
  // Checks inputs and attributes and says what comes out: the only place that does either. Inputs
  // may have unknown sizes; an output size that depends on them is unknown.
  Specs (*infer)(const OpInputs&);
  // Sets every output. Inputs passed `infer`.
  void (*compute)(Kernel&);
  // One gradient per input, given one per output, in terms of public ops; undefined where an input
  // has none. Null when the op has no gradient at all.
  Gradients (*gradient)(const OpCall&, std::span<const Tensor> output_gradients);
  // Why `gradient` is null, for the error that a user sees.
  std::string_view no_gradient_because = {};
  Traits traits = {};

  // Whether it reads or changes state, so that it is never folded, merged or run twice.
  constexpr bool is_stateful() const {
    return traits.has(Trait::ReadsState) || traits.has(Trait::HasEffect);
  }
};

// An op that ran (or was added to a graph), with what its gradient needs.
struct OpCall {
  const OpDef* op = nullptr;
  Attrs attrs = {};
  std::vector<Tensor> inputs = {};
  std::vector<Tensor> outputs = {};
  // Bit i: somebody wants the gradient of input i. A gradient that is expensive to compute may be
  // left undefined otherwise.
  uint32_t wanted = ~0u;

  bool wants(size_t input) const { return input >= 32 || ((wanted >> input) & 1) != 0; }
};

// Runs `op` now, or adds it to the graph when an input is symbolic or a graph is being built, and
// tells the active tape. The one place that knows there are two ways.
Tensor apply(const OpDef& op, std::span<const Tensor> inputs, Attrs attrs, Site site);
std::vector<Tensor> apply_many(const OpDef& op, std::span<const Tensor> inputs, Attrs attrs,
                               Site site);

inline Tensor apply(const OpDef& op, std::initializer_list<Tensor> inputs, Attrs attrs = {},
                    Site site = {}) {
  return apply(op, std::span<const Tensor>(inputs.begin(), inputs.size()), std::move(attrs), site);
}

// Every op compiled in, in the order of op_list.inc.
std::span<const OpDef* const> all_ops();
const OpDef* find_op_or_null(std::string_view name);
// Throws NotFound for an unknown name.
const OpDef& find_op(std::string_view name);

// `infer` takes for granted that a call has the inputs and attributes of the op, because functions
// of this library make it. Throws InvalidArgument, naming the op and what is wrong, when a call
// that came from elsewhere does not.
void check_call(const OpDef& op, size_t inputs, const Attrs& attrs);

}  // namespace cohort::internal
