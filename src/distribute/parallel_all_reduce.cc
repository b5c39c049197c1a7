#include "distribute/parallel_all_reduce.h"

#include <algorithm>
#include <bit>

#include "distribute/reduce_elements.h"
#include "tensor/body.h"
#include "tensor/memory.h"

namespace cohort::internal {
namespace {

// Below this many bytes one replica adds up everything.
constexpr int64_t kWorthSharing = 16 << 10;
// Borders between slices, and the places where tensors begin, keep apart what caches keep together.
constexpr int64_t kCacheLine = 64;

// A replica's call as the others see it: everything they need in one place, worked out beforehand.
struct Part : ReplicaCall {
  uint64_t signature = 0;                      // of op, dtypes and shapes; 0: not dense numbers
  std::vector<size_t> places = {};             // of the values that are defined
  std::vector<const std::byte*> sources = {};  // the values' memory
  std::shared_ptr<SharedResults> shared = nullptr;  // replica 0 brings it
};

const Part& part(const ReplicaCalls& calls, size_t replica) {
  return static_cast<const Part&>(calls[replica]);
}

class Hash {
 public:
  void add(uint64_t number) { state_ = (std::rotl(state_, 23) ^ number) * 0x9e3779b97f4a7c15u; }
  uint64_t value() const { return state_ | 1; }

 private:
  uint64_t state_ = 0x2545f4914f6cdd1du;
};

// Undefined values are left out, when all replicas leave out the same.
bool is_dense_number(const Gradient& value) {
  if (!value.defined()) return true;
  if (value.is_sparse()) return false;
  const Tensor dense = value.dense();
  const TensorBody& held = body(dense);
  return held.kind == TensorBody::Kind::Numeric && held.dtype != kBool;
}

// Fills in the part; `specs` become those of the results.
void prepare(Part& own, Specs& specs) {
  if (!std::all_of(own.values.begin(), own.values.end(), is_dense_number)) return;
  Hash hash;
  hash.add(static_cast<uint64_t>(own.op));
  for (size_t i = 0; i < own.values.size(); ++i) {
    hash.add(own.values[i].defined());
    if (!own.values[i].defined()) continue;
    own.places.push_back(i);
    const Tensor dense = own.values[i].dense();
    const TensorBody& held = body(dense);
    hash.add(static_cast<uint64_t>(held.dtype));
    hash.add(static_cast<uint64_t>(held.shape.rank()));
    for (const int64_t size : held.shape) hash.add(static_cast<uint64_t>(size));
    own.sources.push_back(element_bytes(dense));
    specs.push_back({reduced_dtype(own.op, held.dtype), held.shape});
  }
  own.signature = hash.value();
}

bool all_agree(const ReplicaCalls& calls) {
  const Part& first = part(calls, 0);
  for (size_t replica = 0; replica < calls.size(); ++replica) {
    const uint64_t signature = part(calls, replica).signature;
    if (signature == 0 || signature != first.signature) return false;
  }
  return true;
}

int64_t bytes_of(const Spec& spec) {
  const int64_t bytes = spec.shape.num_elements() * size_of(spec.dtype);
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

// The results of all tensors, one after the other, as one line of bytes, of which a replica takes
// its slice.
class Slice {
 public:
  Slice(const Specs& specs, size_t replica, size_t replicas) {
    int64_t total = 0;
    for (const Spec& spec : specs) total += bytes_of(spec);
    if (total < kWorthSharing) replicas = 1;  // replica 0 takes everything
    begin_ = border(total, replica, replicas);
    end_ = border(total, replica + 1, replicas);
  }

  // Which elements of the next tensor are in the slice.
  struct Range {
    int64_t begin;
    int64_t end;
  };
  Range of_next(const Spec& spec) {
    const int64_t size = size_of(spec.dtype);
    const int64_t count = spec.shape.num_elements();
    const auto element = [&](int64_t position) {
      return std::clamp<int64_t>((position - at_) / size, 0, count);
    };
    const Range range{element(begin_), element(end_)};
    at_ += bytes_of(spec);
    return range;
  }

 private:
  static int64_t border(int64_t total, size_t number, size_t parts) {
    if (number >= parts) return total;
    const int64_t even = total / static_cast<int64_t>(parts) * static_cast<int64_t>(number);
    return even / kCacheLine * kCacheLine;
  }

  int64_t begin_;
  int64_t end_;
  int64_t at_ = 0;  // where the next tensor begins
};

void add_up_slice(const ReplicaCalls& calls, size_t replica) {
  const Part& first = part(calls, 0);
  const SharedResults& shared = *first.shared;
  Slice slice(shared.specs, replica, calls.size());
  std::vector<const std::byte*> sources(calls.size());
  for (size_t i = 0; i < shared.specs.size(); ++i) {
    const Slice::Range range = slice.of_next(shared.specs[i]);
    if (range.begin >= range.end) continue;
    for (size_t r = 0; r < calls.size(); ++r) sources[r] = part(calls, r).sources[i];
    reduce_elements({.op = first.op,
                     .dtype = body(first.values[first.places[i]].dense()).dtype,
                     .sources = sources,
                     .target = shared.data[i]},
                    range.begin, range.end);
  }
}

}  // namespace

std::vector<Gradient> ParallelAllReduce::run(MergePoint& meeting, size_t replica,
                                             const ReplicaCall& call, const Otherwise& otherwise) {
  Part own{call};
  Specs specs;
  prepare(own, specs);
  if (replica == 0 && own.signature != 0) own.shared = pool_.take(specs);
  meeting.meet(replica, own.at_meeting(), nullptr, [&](std::span<void* const> owns) {
    const ReplicaCalls calls(owns);
    if (all_agree(calls)) {
      const std::vector<Tensor>& handles = part(calls, 0).shared->handles[replica];
      own.results.assign(own.values.size(), Gradient());
      for (size_t i = 0; i < handles.size(); ++i) own.results[own.places[i]] = handles[i];
      add_up_slice(calls, replica);
    } else if (replica == 0) {
      otherwise(calls);
    }
  });
  return std::move(own.results);
}

}  // namespace cohort::internal
