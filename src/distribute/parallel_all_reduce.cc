#include "distribute/parallel_all_reduce.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "distribute/replica_part.h"
#include "tensor/reduce_elements.h"

namespace cohort::internal {
namespace {

using Letter = MergePoint::Letter;

// What all replicas brought to the meeting.
class Letters {
 public:
  explicit Letters(std::span<void* const> owns) : owns_(owns) {}
  size_t size() const { return owns_.size(); }
  const Letter& operator[](size_t replica) const {
    return *static_cast<const Letter*>(owns_[replica]);
  }
  // Until all have met again: the part that the letter is of.
  ReplicaPart& part(size_t replica) const {
    return *static_cast<ReplicaPart*>(static_cast<ReplicaCall*>((*this)[replica].sender));
  }
  // Until all have met again: the elements of value `i`.
  const std::byte* data(size_t replica, size_t i) const {
    return i < Letter::kMaxAddresses ? (*this)[replica].addresses[i]
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

// One address for each replica; of a few without a call of the allocator.
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
void add_up(const Letters& letters, const ReplicaPart& own, const SharedResults& results,
            Slice slice, const Data& data) {
  const Terms terms(letters.size());
  for (size_t i = 0; i < results.specs.size(); ++i) {
    const Slice::Range range = slice.of_next(results.specs[i]);
    if (range.begin >= range.end) continue;
    for (size_t r = 0; r < letters.size(); ++r) terms.all()[r] = data(r, i);
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

// Calls `use(place in the letter, source)` for all values.
template <typename Use>
void for_each_mailed(const ReplicaPart& own, const Use& use) {
  int64_t at = 0;
  for (const Source& source : own.sources) {
    use(at, source);
    at += padded_bytes(source.body->dtype, source.body->shape);
  }
}

void write_letter(Letter& letter, ReplicaPart& own) {
  letter.signature = own.signature;
  letter.sender = static_cast<ReplicaCall*>(&own);
  letter.results = own.results_memory.get();
  for (size_t i = 0; i < std::min(own.sources.size(), Letter::kMaxAddresses); ++i) {
    letter.addresses[i] = own.sources[i].data;
  }
  if (own.signature == 0 || !own.is_mailed()) return;
  for_each_mailed(own, [&](int64_t at, const Source& source) {
    const int64_t bytes = source.body->shape.num_elements() * size_of(source.body->dtype);
    if (bytes > 0) std::memcpy(letter.content.data() + at, source.data, static_cast<size_t>(bytes));
  });
}

// All in this replica, out of what was mailed: the others may be gone.
void reduce_mail(const Letters& letters, ReplicaPart& own) {
  hand_out(own.results_memory->handles[0], own);
  std::vector<int64_t> places;
  for_each_mailed(own, [&](int64_t at, const Source&) { places.push_back(at); });
  add_up(letters, own, *own.results_memory, Slice(own.result_bytes, 0, 1),
         [&](size_t r, size_t i) { return letters[r].content.data() + places[i]; });
}

// Out of the values themselves: all in this replica, or a share of the work, into memory that
// replica 0 brought.
void reduce_values(const Letters& letters, size_t replica, ReplicaPart& own) {
  const auto data = [&](size_t r, size_t i) { return letters.data(r, i); };
  if (own.is_shared()) {
    const auto& results = *static_cast<const SharedResults*>(letters[0].results);
    hand_out(results.handles[replica], own);
    add_up(letters, own, results, Slice(own.result_bytes, replica, letters.size()), data);
  } else {
    hand_out(own.results_memory->handles[0], own);
    add_up(letters, own, *own.results_memory, Slice(own.result_bytes, 0, 1), data);
  }
}

// All of it, for everybody, while they wait; into memory that replica 0 brought. `part` is one of
// theirs.
void reduce_for_everybody(const Letters& letters, const ReplicaPart& part) {
  const auto& results = *static_cast<const SharedResults*>(letters[0].results);
  add_up(letters, part, results, Slice(part.result_bytes, 0, 1),
         [&](size_t r, size_t i) { return letters.data(r, i); });
  for (size_t r = 0; r < letters.size(); ++r) hand_out(results.handles[r], letters.part(r));
}

}  // namespace

ParallelAllReduce::ParallelAllReduce(const std::vector<std::string>& devices)
    : most_at_once_(devices.size() > std::thread::hardware_concurrency() ? kMaxAtOnceCrowded : 0),
      shared_(devices) {
  for (const std::string& device : devices) private_.emplace_back(std::vector{device});
}

std::vector<Gradient> ParallelAllReduce::run(MergePoint& meeting, size_t replica,
                                             const ReplicaCall& call, const Otherwise& otherwise) {
  ReplicaPart own(call);
  own.results.resize(own.values.size());
  if (own.signature != 0 && (replica == 0 || !own.is_shared())) {
    const auto specs = [&] { return own.specs(); };
    ResultPool& pool = own.is_shared() ? shared_ : private_[replica];
    own.results_memory = pool.take(own.signature, std::ref(specs));
  }
  Letter& letter = meeting.letter(replica);
  write_letter(letter, own);
  MergePoint::Call arrival = own.at_meeting();
  arrival.own = &letter;
  const bool at_once = own.is_shared() && own.result_bytes <= most_at_once_;
  const MergePoint::Work reduce_all = [&own](std::span<void* const> owns) {
    const Letters all(owns);
    if (all.agree()) reduce_for_everybody(all, own);
  };
  if (at_once) arrival.last = &reduce_all;
  const Letters letters(meeting.meet(replica, arrival, nullptr, nullptr));
  // From here on nobody can fail before all have met again.
  MergePoint::Call departure{call.what, 0, static_cast<ReplicaCall*>(&own), {}};
  if (!letters.agree()) {
    meeting.meet(
        replica, departure, [&](std::span<void* const> owns) { otherwise(ReplicaCalls(owns)); },
        nullptr);
  } else if (own.is_mailed()) {
    reduce_mail(letters, own);
  } else if (!at_once) {
    reduce_values(letters, replica, own);
    meeting.meet_again(replica);
  }
  return std::move(own.results);
}

}  // namespace cohort::internal
