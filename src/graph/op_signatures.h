#pragma once

#include <string_view>
#include <vector>

#include "ops/attrs.h"

namespace cohort::internal {

// What an attribute must hold.
enum class AttrKind { Bool, Int, Float, Text, DType, Shape, Pair, Axes, Ints, Tensor, Function };

struct AttrSignature {
  std::string_view name;  // a literal, as Attrs wants its names
  AttrKind kind;
};

// What a call of an op looks like from outside: how many inputs, which attributes. `infer` checks
// what they say; it may take for granted that they are there, because functions of this library
// made the call. A call that somebody else wrote down must match its signature first.
struct OpSignature {
  int least_inputs = 0;
  int most_inputs = 0;
  bool one_dtype = false;  // all inputs have the same
  std::vector<AttrSignature> attrs = {};
};

// Null for an op that may not come from outside.
const OpSignature* find_signature(std::string_view op);

// Whether the value is of the kind; lists also have a length that the kind allows.
bool matches(AttrKind kind, const AttrValue& value);
std::string_view to_string(AttrKind kind);

// Throws InvalidArgument, naming the op and what is wrong, unless there are that many inputs and
// the attributes are exactly those of the signature.
void check_call(std::string_view op, const OpSignature& signature, size_t inputs,
                const Attrs& attrs);

}  // namespace cohort::internal
