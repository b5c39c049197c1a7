#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cohort/error.h"
#include "cohort/gradient.h"
#include "cohort/tensor.h"

namespace cohort::internal {

class GraphFunction;  // a traced body that an op runs (cond, while_loop, a call); graph/ has it

using FunctionPtr = std::shared_ptr<const GraphFunction>;

using AttrValue = std::variant<bool, int64_t, double, std::string, DType, Shape,
                               std::vector<int64_t>, std::vector<std::string>, Tensor, FunctionPtr>;

// The constants of one op call, by name: what a serialized node carries besides its inputs. Names
// are literals. Few per op, so a list beats a map.
class Attrs {
 public:
  using Entry = std::pair<std::string_view, AttrValue>;

  Attrs() = default;
  Attrs(std::initializer_list<Entry> entries) : entries_(entries) {}

  // Throws Internal when the op has no such attribute: every op sets all of its own.
  template <typename T>
  const T& get(std::string_view name) const {
    return std::get<T>(at(name));
  }
  bool flag(std::string_view name) const { return get<bool>(name); }
  int64_t integer(std::string_view name) const { return get<int64_t>(name); }
  double number(std::string_view name) const { return get<double>(name); }
  const std::vector<int64_t>& integers(std::string_view name) const {
    return get<std::vector<int64_t>>(name);
  }

  // Null when the call has no such attribute.
  const AttrValue* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  void set(std::string_view name, AttrValue value) {
    entries_.emplace_back(name, std::move(value));
  }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  const AttrValue& at(std::string_view name) const;

  std::vector<Entry> entries_;
};

// What an attribute must hold.
enum class AttrKind { Bool, Int, Float, Text, DType, Shape, Pair, Axes, Ints, Tensor, Function };

// Whether the value is of the kind; lists also have a length that the kind allows.
bool matches(AttrKind kind, const AttrValue& value);
std::string_view to_string(AttrKind kind);

struct AttrDef {
  std::string_view name;  // a literal, as Attrs wants its names
  AttrKind kind;
};

// The attributes of an op: each call has all of them and no others.
class AttrList {
 public:
  constexpr AttrList() = default;
  constexpr AttrList(std::initializer_list<AttrDef> attrs) {
    for (const AttrDef& attr : attrs) attrs_[size_++] = attr;
  }
  constexpr AttrList operator+(const AttrList& more) const {
    AttrList all = *this;
    for (const AttrDef& attr : more) all.attrs_[all.size_++] = attr;
    return all;
  }

  constexpr size_t size() const { return size_; }
  constexpr const AttrDef* begin() const { return attrs_.data(); }
  constexpr const AttrDef* end() const { return begin() + size_; }
  // Null when the op has no attribute of that name.
  const AttrDef* find(std::string_view name) const;
  // Whether an attribute is of the kind.
  bool has(AttrKind kind) const;

 private:
  // No op has more. A longer list does not compile.
  static constexpr size_t kMaxAttrs = 10;

  std::array<AttrDef, kMaxAttrs> attrs_ = {};
  size_t size_ = 0;
};

// What an output must be, of ops that cannot infer it.
inline constexpr AttrList kDeclaredAttrs{{"dtype", AttrKind::DType}, {"shape", AttrKind::Shape}};

// Dtype and shape of one output, known before anything is computed.
using Spec = TensorSpec;
using Specs = std::vector<Spec>;
Specs specs_of(std::span<const Tensor> tensors);
// "(float32 (2, 3), int64 ())"
std::string to_string(std::span<const Spec> specs);

// Dtypes and shapes as one list of integers, which is what an attribute can hold: for each tensor
// the number of its dtype, its rank (-1: unknown) and its sizes.
std::vector<int64_t> pack_specs(std::span<const Spec> specs);
// Throws InvalidArgument naming `op` for a list that pack_specs does not make.
Specs unpack_specs(std::string_view op, std::span<const int64_t> packed);

// What an op may be asked about its inputs without their values; a concrete input has those too.
struct OpInputs {
  std::string_view op;  // the op's name, for messages
  std::span<const Tensor> tensors;
  const Attrs& attrs;

  const Tensor& operator[](size_t i) const { return tensors[i]; }
  size_t size() const { return tensors.size(); }
  const Shape& shape(size_t i) const;
  DType dtype(size_t i) const;
  Spec spec(size_t i) const { return {dtype(i), shape(i)}; }
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
using Grads = std::span<const Tensor>;  // one per output

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
  HasEffect = 1 << 2,    // changes state, or does something that is seen outside the graph
  Source = 1 << 3,       // gives a value that comes from outside the graph
  Placeholder = 1 << 4,  // is there to be fed
  Random = 1 << 5,       // gives other values for another key
  MayWait = 1 << 6,      // waits for what another run does, or runs code of the user's
  ShapeOnly = 1 << 7,    // looks at the shape of its input, not at the values
  HostOnly = 1 << 8,     // has kernels on CPU devices only, whatever its dtypes
  Observes = 1 << 9,     // has an effect that no other op sees, so that none waits for it
  HostKernel = 1 << 10,  // has a kernel that reads or writes elements of the host's memory; on a
                         // GPU the op is bridged: inputs are copied to the host, and results back
  Copies = 1 << 11,      // takes its input from any device and gives it on its own
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
  Gradients (*gradient)(const OpCall&, Grads output_gradients) = nullptr;
  // Why `gradient` is null, for the error that a user sees.
  std::string_view no_gradient_because = {};
  Traits traits = {};

  // Whether it reads or changes state, so that it is never folded, merged or run twice.
  constexpr bool is_stateful() const {
    return traits.has(Trait::ReadsState) || traits.has(Trait::HasEffect);
  }
};

// The same op with one trait more.
constexpr OpDef with_trait(OpDef op, Trait trait) {
  op.traits = op.traits | trait;
  return op;
}

// An op that ran (or was added to a graph), with what its gradient needs.
struct OpCall {
  const OpDef* op = nullptr;
  Attrs attrs = {};
  std::vector<Tensor> inputs = {};
  std::vector<Tensor> outputs = {};
  // Bit i: the gradient of input i is wanted. A gradient that is expensive to compute may be
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
// The op of that name, or null.
const OpDef* find_op_or_null(std::string_view name);

// `infer` takes for granted that a call has the inputs and attributes of the op, because functions
// of this library make it. Throws InvalidArgument, naming the op and what is wrong, when a call
// that came from elsewhere does not.
void check_call(const OpDef& op, size_t inputs, const Attrs& attrs);

}  // namespace cohort::internal
