// How replicas that are threads of this process add up: row 5 of the table in gradient_update.cc.
// The additions are always in the order of the replicas.

#include "distribute/reduce/thread_all_reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "base/machine.h"
#include "cohort/device.h"
#include "cohort/strategy_extended.h"
#include "distribute/strategies/strategy_impl.h"
#include "kernels/reduce_elements.h"
#include "ops/variable_cell.h"
#include "tensor/body.h"
#include "tensor/memory.h"

namespace cohort {
namespace internal {
namespace {

using InlineValue = ReplicaRendezvous::InlineValue;

// ---- What replicas bring

// Slices and tensors begin at multiples of a cache line, so that no two replicas write to the same
// line.
constexpr int64_t kCacheLine = 64;

// The bytes from the beginning of a tensor to where the next one may begin.
int64_t padded_bytes(DType dtype, const Shape& shape) {
  const int64_t bytes = shape.num_elements() * size_of(dtype);
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

// One of a replica's values.
struct Source {
  size_t place;  // in the list of values
  const std::byte* data;
  const TensorBody* body;
};

// A replica's call of all_reduce as the other replicas see it: everything that they need, computed
// beforehand.
struct ReplicaPart : ReplicaCall {
  // Leaves out undefined values, which is correct when all replicas leave out the same ones.
  ReplicaPart(const ReplicaCall& call, int64_t inline_limit);

  int64_t max_inline;
  uint64_t signature = 0;  // of op, dtypes, shapes, what for; 0: not dense numbers
  int64_t bytes = 0;       // of the values, and of the results
  int64_t result_bytes = 0;
  std::vector<Source> sources = {};  // the values that are defined
  std::shared_ptr<SharedResults> results_memory = nullptr;

  // Whether the values have so few bytes that replicas copy them. Copying more takes longer than a
  // second rendezvous.
  bool is_inline() const { return bytes <= max_inline; }
  // Of the results.
  Specs specs() const;
};

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

// A value at `place`; nullopt when it is not a dense number.
std::optional<Source> source_of(const Gradient& value, size_t place) {
  if (value.is_sparse()) return std::nullopt;
  const Tensor dense = value.dense();
  const TensorBody& held = body(dense);
  if (held.kind != TensorBody::Kind::Numeric || held.dtype == kBool) return std::nullopt;
  return Source{place, element_bytes(dense), &held};
}

void add_to(Hash& hash, const Source& source) {
  const TensorBody& held = *source.body;
  for (const uint64_t number : {uint64_t{source.place}, static_cast<uint64_t>(held.dtype),
                                static_cast<uint64_t>(held.shape.rank())}) {
    hash.add(number);
  }
  for (const int64_t size : held.shape) hash.add(static_cast<uint64_t>(size));
}

ReplicaPart::ReplicaPart(const ReplicaCall& call, int64_t inline_limit)
    : ReplicaCall(call), max_inline(inline_limit) {
  Hash hash;
  hash.add(static_cast<uint64_t>(op));
  sources.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].defined()) continue;
    const std::optional<Source> source = source_of(values[i], i);
    if (!source) return;
    add_to(hash, *source);
    const Spec result = result_of(op, *source->body);
    bytes += padded_bytes(source->body->dtype, source->body->shape);
    result_bytes += padded_bytes(result.dtype, result.shape);
    sources.push_back(*source);
  }
  hash.add(values.size());
  if (reason() != what) hash.add(std::hash<std::string_view>()(reason()));
  // One file may have its name at two addresses. Signatures that differ for that reason only lead
  // to check_same(), which compares the names.
  hash.add(static_cast<uint64_t>(site().line));
  hash.add(reinterpret_cast<uintptr_t>(site().file));
  if (variables != nullptr) {
    for (const Variable& variable : *variables) {
      hash.add(reinterpret_cast<uintptr_t>(VariableAccess::impl(variable).get()));
    }
  }
  signature = hash.value();
}

Specs ReplicaPart::specs() const {
  Specs all;
  for (const Source& source : sources) all.push_back(result_of(op, *source.body));
  return all;
}

// The inline values of all replicas.
class InlineValues {
 public:
  explicit InlineValues(std::span<void* const> owns) : owns_(owns) {}
  size_t size() const { return owns_.size(); }
  const InlineValue& operator[](size_t replica) const {
    return *static_cast<const InlineValue*>(owns_[replica]);
  }
  // The part that the inline value belongs to. Valid until all replicas have met again.
  ReplicaPart& part(size_t replica) const {
    return *static_cast<ReplicaPart*>(static_cast<ReplicaCall*>((*this)[replica].sender));
  }
  // The elements of value `i`. Valid until all replicas have met again.
  const std::byte* data(size_t replica, size_t i) const {
    return i < InlineValue::kMaxAddresses ? (*this)[replica].addresses[i]
                                          : part(replica).sources[i].data;
  }
  bool agree() const {
    const uint64_t first = (*this)[0].signature;
    bool all = first != 0;
    for (size_t r = 1; r < size(); ++r) all &= (*this)[r].signature == first;
    return all;
  }

 private:
  std::span<void* const> owns_;
};

// ---- Adding up

// The results of all tensors lie one after the other in one range of bytes. This is slice `number`
// of `parts` of that range.
class ByteSlice {
 public:
  ByteSlice(int64_t total, size_t number, size_t parts)
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
    at_ += padded_bytes(spec.dtype, spec.shape);
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

// One address for each replica; for a few replicas it does not allocate.
class Terms {
 public:
  explicit Terms(size_t replicas)
      : many_(replicas > few_.size() ? replicas : 0),
        all_(many_.empty() ? few_.data() : many_.data(), replicas) {}
  Terms(const Terms&) = delete;
  Terms& operator=(const Terms&) = delete;
  std::span<const std::byte*> all() const { return all_; }

 private:
  std::array<const std::byte*, 8> few_;
  std::vector<const std::byte*> many_;
  std::span<const std::byte*> all_;
};

// The terms of all results are where `data(replica, number of the result)` says.
template <typename Data>
void add_up(const InlineValues& brought, const ReplicaPart& own, const SharedResults& results,
            ByteSlice slice, const Data& data) {
  const Terms terms(brought.size());
  for (size_t i = 0; i < results.specs.size(); ++i) {
    const ByteSlice::Range range = slice.of_next(results.specs[i]);
    if (range.begin >= range.end) continue;
    for (size_t r = 0; r < brought.size(); ++r) terms.all()[r] = data(r, i);
    reduce_elements({.op = own.op,
                     .dtype = own.sources[i].body->dtype,
                     .sources = terms.all(),
                     .target = results.data[i]},
                    range.begin, range.end);
  }
}

void hand_out(const std::vector<Tensor>& handles, ReplicaPart& own) {
  for (size_t i = 0; i < handles.size(); ++i) own.results[own.sources[i].place] = handles[i];
}

// Calls `use(place in the inline value, source)` for all values.
template <typename Use>
void for_each_inline(const ReplicaPart& own, const Use& use) {
  int64_t at = 0;
  for (const Source& source : own.sources) {
    use(at, source);
    at += padded_bytes(source.body->dtype, source.body->shape);
  }
}

void write_inline(InlineValue& value, ReplicaPart& own) {
  value.signature = own.signature;
  value.sender = static_cast<ReplicaCall*>(&own);
  value.results = own.results_memory.get();
  for (size_t i = 0; i < std::min(own.sources.size(), InlineValue::kMaxAddresses); ++i) {
    value.addresses[i] = own.sources[i].data;
  }
  if (own.signature == 0 || !own.is_inline()) return;
  for_each_inline(own, [&](int64_t at, const Source& source) {
    const int64_t bytes = source.body->shape.num_elements() * size_of(source.body->dtype);
    if (bytes > 0) std::memcpy(value.content.data() + at, source.data, static_cast<size_t>(bytes));
  });
}

// This replica adds up all values, from the inline values: the other replicas may have gone on.
void reduce_inline(const InlineValues& brought, ReplicaPart& own) {
  hand_out(own.results_memory->handles[0], own);
  std::vector<int64_t> places;
  for_each_inline(own, [&](int64_t at, const Source&) { places.push_back(at); });
  add_up(brought, own, *own.results_memory, ByteSlice(own.result_bytes, 0, 1),
         [&](size_t r, size_t i) { return brought[r].content.data() + places[i]; });
}

// This replica adds up its slice, from the values themselves, into memory that replica 0 brought.
void reduce_slice(const InlineValues& brought, size_t replica, ReplicaPart& own) {
  const auto& results = *static_cast<const SharedResults*>(brought[0].results);
  hand_out(results.handles[replica], own);
  add_up(brought, own, results, ByteSlice(own.result_bytes, replica, brought.size()),
         [&](size_t r, size_t i) { return brought.data(r, i); });
}

// Adds up all values for all replicas while they wait, into memory that replica 0 brought. `part`
// is that of any replica.
void reduce_for_all_replicas(const InlineValues& brought, const ReplicaPart& part) {
  const auto& results = *static_cast<const SharedResults*>(brought[0].results);
  add_up(brought, part, results, ByteSlice(part.result_bytes, 0, 1),
         [&](size_t r, size_t i) { return brought.data(r, i); });
  for (size_t r = 0; r < brought.size(); ++r) hand_out(results.handles[r], brought.part(r));
}

bool is_free(const std::shared_ptr<SharedResults>& results) {
  if (results.use_count() != 1) return false;
  for (const std::vector<Tensor>& own : results->handles) {
    for (const Tensor& tensor : own) {
      if (!is_held_here_only(tensor, results->handles.size())) return false;
    }
  }
  return true;
}

}  // namespace

std::shared_ptr<SharedResults> ResultPool::make(uint64_t signature, Specs specs) const {
  auto made = std::make_shared<SharedResults>();
  made->signature = signature;
  made->specs = std::move(specs);
  made->handles.resize(devices_.size());
  for (size_t replica = 0; replica < devices_.size(); ++replica) {
    const DeviceScope on(devices_[replica]);
    for (size_t i = 0; i < made->specs.size(); ++i) {
      const Spec& spec = made->specs[i];
      if (replica == 0) {
        const WritableTensor result = allocate_tensor(spec.dtype, spec.shape);
        made->data.push_back(result.data);
        made->handles[0].push_back(result.tensor);
      } else {
        made->handles[replica].push_back(view_elements(made->handles[0][i], 0, spec.shape));
      }
    }
  }
  return made;
}

std::shared_ptr<SharedResults> ResultPool::take(uint64_t signature,
                                                const std::function<Specs()>& specs) {
  const std::lock_guard lock(mutex_);
  const auto* const free = reuse_last(kept_, [&](const auto& results) {
    return results->signature == signature && is_free(results);
  });
  if (free != nullptr) return *free;
  if (kept_.size() == kMaxKept) kept_.erase(kept_.begin());
  kept_.push_back(make(signature, specs()));
  return kept_.back();
}

ThreadAllReduce::ThreadAllReduce(const std::vector<std::string>& devices,
                                 const SmallReductionLimits& limits)
    : limits_{.inline_bytes = std::min<int64_t>(limits.inline_bytes, InlineValue::kMaxBytes),
              .at_once_bytes = devices.size() > core_count() ? limits.at_once_bytes : 0},
      shared_(devices) {
  for (const std::string& device : devices) private_.emplace_back(std::vector{device});
}

std::vector<Gradient> ThreadAllReduce::run(ReplicaRendezvous& rendezvous, size_t replica,
                                           const ReplicaCall& call, const Otherwise& otherwise) {
  ReplicaPart own(call, limits_.inline_bytes);
  own.results.resize(own.values.size());
  if (own.signature != 0 && (replica == 0 || own.is_inline())) {
    const auto specs = [&] { return own.specs(); };
    ResultPool& pool = own.is_inline() ? private_[replica] : shared_;
    own.results_memory = pool.take(own.signature, std::ref(specs));
  }
  InlineValue& value = rendezvous.inline_value(replica);
  write_inline(value, own);
  ReplicaRendezvous::Call arrival = own.as_call();
  arrival.own = &value;
  const bool at_once = !own.is_inline() && own.result_bytes <= limits_.at_once_bytes;
  const ReplicaRendezvous::Work reduce_all = [&own](std::span<void* const> owns) {
    const InlineValues all(owns);
    if (all.agree()) reduce_for_all_replicas(all, own);
  };
  if (at_once) arrival.last = &reduce_all;
  const InlineValues brought(rendezvous.meet(replica, arrival, nullptr, nullptr));
  // From here on no replica can fail before all have met again.
  ReplicaRendezvous::Call departure{call.what, 0, static_cast<ReplicaCall*>(&own),
                                    ReplicaRendezvous::kForEver};
  if (!brought.agree()) {
    rendezvous.meet(
        replica, departure, [&](std::span<void* const> owns) { otherwise(ReplicaCalls(owns)); },
        nullptr);
  } else if (own.is_inline()) {
    reduce_inline(brought, own);
  } else if (!at_once) {
    reduce_slice(brought, replica, own);
    rendezvous.meet_again(replica);
  }
  return std::move(own.results);
}

}  // namespace internal

std::vector<Gradient> StrategyExtended::replica_all_reduce(ReplicaContext& context,
                                                           const ReplicaReduction& own) {
  internal::ReplicaCall call{
      .what = "all_reduce", .op = own.op, .values = own.values, .options = own.options};
  const auto once = [this](const internal::ReplicaCalls& calls) {
    internal::reduce_for_all(*this, calls);
  };
  internal::ReplicaRendezvous* const rendezvous = internal::Access::rendezvous(context);
  if (impl_->thread_all_reduce != nullptr && rendezvous != nullptr &&
      rendezvous->shared_graph() == nullptr) {
    return impl_->thread_all_reduce->run(*rendezvous, context.local_replica(), call, once);
  }
  internal::meet_once(context, call, once);
  return std::move(call.results);
}

}  // namespace cohort
