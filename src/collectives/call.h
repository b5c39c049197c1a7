#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cohort/values.h"
#include "transport/connection.h"
#include "transport/message_codec.h"

namespace cohort::internal {

// The collectives. Messages contain the numbers.
enum class CallKind : uint8_t {
  Meet = 0,
  AllReduce = 1,
  Broadcast = 2,
  Reduce = 3,
  AllGather = 4,
  ReduceScatter = 5,
  AllToAll = 6,
  Barrier = 7,
  MakePack = 8,
  Split = 9,
  Calibrate = 10,
};

// A call of a collective by one member: what all members must agree on, and the deadline.
struct Call {
  CallKind kind = CallKind::Meet;
  ReduceOp op = ReduceOp::Sum;
  DType dtype = kUInt8;
  int root = 0;
  Shape shape = {};
  std::string detail = {};   // readable text about more that must agree
  std::string purpose = {};  // why the strategy makes the call; must agree
  bool on_gpu = false;       // where the values are
  uint64_t pack = 0;         // number of the call that made the pack of the values; 0: no pack
  uint64_t number = 0;       // in the order of the group's calls; the first rendezvous is 0
  // A hash of the place in the program; must agree, but 0 agrees with every other value.
  uint64_t site = 0;
  // Not compared:
  std::string file = {};  // of the site, without directories
  int line = 0;           // 0: not known
  Deadline deadline = Deadline::max();

  int64_t count() const { return shape.num_elements(); }
  static void list_fields(auto& fields, auto& c) {
    fields(c.number, at_most(c.kind, CallKind::Calibrate), at_most(c.op, ReduceOp::Product),
           at_most(c.dtype, kResource), c.root, c.shape, c.detail, c.on_gpu, c.pack, c.purpose,
           c.site, c.file, c.line);
  }
};

// "AllReduce": what messages begin with, in brackets.
std::string_view name_of(CallKind kind);
// "all_reduce(Sum) of float32 (3,) for apply_gradients at train.cc:12".
std::string to_string(const Call& call);

// "2 tensors of float32: (3,), (2, 4) [5f3a01]": the first shapes, and a hash of all.
std::string describe_tensors(DType dtype, std::span<const Shape> shapes);

// Gives a call the purpose and the site of this thread. A group's first rendezvous has neither,
// since a worker that starts again meets workers that recover.
void set_purpose(Call& call);

// A hash of everything that must agree, except the number and the site.
uint64_t fingerprint(const Call& call);
inline bool same_site(uint64_t a, uint64_t b) { return a == b || a == 0 || b == 0; }
// Whether the calls of two members can be the same call.
bool agree(const Call& a, const Call& b);

// Combines two numbers into one, the same in every process.
uint64_t mix(uint64_t a, uint64_t b);

}  // namespace cohort::internal
