#include "distribute/parallel_all_reduce.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "tensor/body.h"
#include "tensor/memory.h"
#include "tensor/reduce_elements.h"

namespace cohort::internal {
namespace {

// Results of fewer bytes than this are added up by each replica for itself.
constexpr int64_t kWorthSharing = 16 << 10;
// Borders between slices, and the places where tensors begin, keep apart what caches keep together.
constexpr int64_t kCacheLine = 64;

// One of a replica's values.
struct Source {
  size_t place;  // in the list of values
  const std::byte* data;
  const TensorBody* body;
};

// A replica's call as the others see it: everything they need in one place, worked out beforehand.
struct Part : ReplicaCall {
  uint64_t signature = 0;            // of op, dtypes and shapes; 0: not dense numbers
  int64_t bytes = 0;                 // of the results
  std::vector<Source> sources = {};  // the values that are defined
  std::shared_ptr<SharedResults> results_memory = nullptr;

  bool is_shared() const { return bytes >= kWorthSharing; }
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

Spec result_of(ReduceOp op, const TensorBody& value) {
  return {reduced_dtype(op, value.dtype), value.shape};
}

int64_t bytes_of(const Spec& spec) {
  const int64_t bytes = spec.shape.num_elements() * size_of(spec.dtype);
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

// A value at `place`; nullopt when it is not a dense number.
std::optional<Source> source_of(const Gradient& value, size_t place) {
  if (value.is_sparse()) return std::nullopt;
  const Tensor dense = value.dense();
  const TensorBody& held = body(dense);
  if (held.kind != TensorBody::Kind::Numeric || held.dtype == kBool) return std::nullopt;
  return Source{place, element_bytes(dense), &held};
}

// Fills in the part. Undefined values are left out: fine when all replicas leave out the same.
void prepare(Part& own) {
  Hash hash;
  hash.add(static_cast<uint64_t>(own.op));
  own.sources.reserve(own.values.size());
  for (size_t i = 0; i < own.values.size(); ++i) {
    if (!own.values[i].defined()) continue;
    const std::optional<Source> source = source_of(own.values[i], i);
    if (!source) return;
    const TensorBody& held = *source->body;
    for (const uint64_t number :
         {i, static_cast<uint64_t>(held.dtype), static_cast<uint64_t>(held.shape.rank())}) {
      hash.add(number);
    }
    for (const int64_t size : held.shape) hash.add(static_cast<uint64_t>(size));
    own.bytes += bytes_of(result_of(own.op, held));
    own.sources.push_back(*source);
  }
  hash.add(own.values.size());
  own.signature = hash.value();
}

Specs specs_of(const Part& own) {
  Specs specs;
  for (const Source& source : own.sources) specs.push_back(result_of(own.op, *source.body));
  return specs;
}

bool all_agree(const ReplicaCalls& calls) {
  const uint64_t first = part(calls, 0).signature;
  bool agree = first != 0;
  for (size_t r = 1; r < calls.size(); ++r) agree &= part(calls, r).signature == first;
  return agree;
}

// The results of all tensors, one after the other, as one line of bytes, and the slice of it that
// is part `number` of `parts`.
class Slice {
 public:
  Slice(int64_t total, size_t number, size_t parts)
      : begin_(border(total, number, parts)), end_(border(total, number + 1, parts)) {}

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
    if (number == parts) return total;
    const int64_t even = total / static_cast<int64_t>(parts) * static_cast<int64_t>(number);
    return even / kCacheLine * kCacheLine;
  }

  int64_t begin_;
  int64_t end_;
  int64_t at_ = 0;  // where the next tensor begins
};

void add_up(const ReplicaCalls& calls, const SharedResults& results, Slice slice) {
  const Part& first = part(calls, 0);
  std::vector<const std::byte*> sources(calls.size());
  for (size_t i = 0; i < results.specs.size(); ++i) {
    const Slice::Range range = slice.of_next(results.specs[i]);
    if (range.begin >= range.end) continue;
    for (size_t r = 0; r < calls.size(); ++r) sources[r] = part(calls, r).sources[i].data;
    reduce_elements({.op = first.op,
                     .dtype = first.sources[i].body->dtype,
                     .sources = sources,
                     .target = results.data[i]},
                    range.begin, range.end);
  }
}

void hand_out(const std::vector<Tensor>& handles, Part& own) {
  own.results.resize(own.values.size());
  for (size_t i = 0; i < handles.size(); ++i) own.results[own.sources[i].place] = handles[i];
}

void reduce(const ReplicaCalls& calls, size_t replica, Part& own) {
  if (own.is_shared()) {
    const SharedResults& results = *part(calls, 0).results_memory;
    hand_out(results.handles[replica], own);
    add_up(calls, results, Slice(own.bytes, replica, calls.size()));
  } else {
    hand_out(own.results_memory->handles[0], own);
    add_up(calls, *own.results_memory, Slice(own.bytes, 0, 1));
  }
}

}  // namespace

ParallelAllReduce::ParallelAllReduce(const std::vector<std::string>& devices) : shared_(devices) {
  for (const std::string& device : devices) private_.emplace_back(std::vector{device});
}

std::vector<Gradient> ParallelAllReduce::run(MergePoint& meeting, size_t replica,
                                             const ReplicaCall& call, const Otherwise& otherwise) {
  Part own{call};
  prepare(own);
  if (own.signature != 0 && (replica == 0 || !own.is_shared())) {
    const auto specs = [&] { return specs_of(own); };
    ResultPool& pool = own.is_shared() ? shared_ : private_[replica];
    own.results_memory = pool.take(own.signature, std::ref(specs));
  }
  const auto each = [&](std::span<void* const> owns) {
    const ReplicaCalls calls(owns);
    if (all_agree(calls)) {
      reduce(calls, replica, own);
    } else if (replica == 0) {
      otherwise(calls);
    }
  };
  meeting.meet(replica, own.at_meeting(), nullptr, std::ref(each));
  return std::move(own.results);
}

}  // namespace cohort::internal
