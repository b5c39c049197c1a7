// A stand-in for NCCL's C interface that reduces in host memory, so that what calls NCCL can be
// tested on machines without GPUs. The members of a communicator are devices of one thread
// (ncclCommInitAll), or threads of this process (ncclCommInitRank). As with NCCL, nothing happens
// before a group of calls ends. It knows no 16-bit floats.

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 4;
constexpr int kInvalidUsage = 5;
constexpr int kAverage = 4;

enum class Kind { AllReduce, Broadcast, Reduce, ReduceScatter };

struct Call {
  Kind kind;
  const void* send;
  void* receive;
  size_t count;  // of elements that are sent
  int dtype;
  int op = 0;
  int root = 0;
};

std::atomic<int> all_reduces = 0;
std::atomic<int> live_comms = 0;
thread_local int group_depth = 0;

template <typename T>
T combine(int op, T a, T b) {
  switch (op) {
    case 1:
      return static_cast<T>(a * b);
    case 2:
      return a < b ? b : a;
    case 3:
      return b < a ? b : a;
    default:
      return static_cast<T>(a + b);
  }
}

// What everybody gets of `calls`, which are one of each member.
template <typename T>
std::vector<T> result_of(const std::vector<Call>& calls) {
  const Call& first = calls[0];
  const Call& source =
      first.kind == Kind::Broadcast ? calls[static_cast<size_t>(first.root)] : first;
  std::vector<T> total(first.count);
  if (first.count > 0) std::memcpy(total.data(), source.send, first.count * sizeof(T));
  if (first.kind == Kind::Broadcast) return total;
  for (size_t k = 1; k < calls.size(); ++k) {
    const T* next = static_cast<const T*>(calls[k].send);
    for (size_t i = 0; i < total.size(); ++i) total[i] = combine(first.op, total[i], next[i]);
  }
  for (T& value : total) {
    if (first.op == kAverage) value = static_cast<T>(value / static_cast<T>(calls.size()));
  }
  return total;
}

template <typename T>
int perform(const std::vector<Call>& calls) {
  const std::vector<T> total = result_of<T>(calls);
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    const Call& call = calls[rank];
    if (call.count != calls[0].count) return kInvalidUsage;
    if (call.kind == Kind::Reduce && static_cast<int>(rank) != call.root) continue;
    const bool scatters = call.kind == Kind::ReduceScatter;
    const size_t count = scatters ? call.count / calls.size() : call.count;
    if (count == 0) continue;
    std::memcpy(call.receive, total.data() + (scatters ? rank * count : 0), count * sizeof(T));
  }
  return kSuccess;
}

int perform_any(const std::vector<Call>& calls) {
  switch (calls[0].dtype) {
    case 0:
      return perform<int8_t>(calls);
    case 1:
      return perform<uint8_t>(calls);
    case 2:
      return perform<int32_t>(calls);
    case 4:
      return perform<int64_t>(calls);
    case 7:
      return perform<float>(calls);
    case 8:
      return perform<double>(calls);
    default:
      return kInvalidArgument;
  }
}

// Where the threads of one communicator meet, call after call.
class Rendezvous {
 public:
  explicit Rendezvous(size_t size) : calls_(size) {}
  size_t size() const { return calls_.size(); }

  int meet(size_t rank, const Call& call) {
    std::unique_lock lock(mutex_);
    calls_[rank] = call;
    const uint64_t own = round_;
    if (++came_ == calls_.size()) {
      result_ = perform_any(calls_);
      came_ = 0;
      ++round_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return round_ != own || aborted_; });
    }
    return round_ != own ? result_ : kInvalidUsage;
  }
  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Call> calls_;
  size_t came_ = 0;
  uint64_t round_ = 0;
  int result_ = kSuccess;
  bool aborted_ = false;
};

struct Id {
  std::array<char, 128> bytes;
};

// By what an id says; a rendezvous lives as long as its communicators.
std::mutex rendezvous_mutex;
std::map<std::string, std::weak_ptr<Rendezvous>> rendezvous_by_id;

}  // namespace

struct NcclComm {
  std::vector<Call> calls = {};                      // since the group began
  std::vector<NcclComm*>* members = nullptr;         // of one thread
  std::shared_ptr<Rendezvous> rendezvous = nullptr;  // of several threads
  size_t rank = 0;
};

namespace {

thread_local std::vector<NcclComm*> active;  // in this thread's group

int run_now(NcclComm* comm, const Call& call) {
  if (comm->rendezvous) return comm->rendezvous->meet(comm->rank, call);
  return comm->members->size() == 1 ? perform_any({call}) : kInvalidUsage;
}

int add(NcclComm* comm, const Call& call) {
  if (group_depth == 0) return run_now(comm, call);
  if (comm->calls.empty()) active.push_back(comm);
  comm->calls.push_back(call);
  return kSuccess;
}

// The calls of a communicator whose members are all this thread's.
int run_together(const std::vector<NcclComm*>& members) {
  int result = kSuccess;
  for (size_t i = 0; i < members[0]->calls.size(); ++i) {
    std::vector<Call> together;
    for (const NcclComm* member : members) {
      if (member->calls.size() != members[0]->calls.size()) return kInvalidUsage;
      together.push_back(member->calls[i]);
    }
    if (const int failed = perform_any(together); failed != kSuccess) result = failed;
  }
  for (NcclComm* member : members) member->calls.clear();
  return result;
}

int run_group(NcclComm* comm) {
  if (!comm->rendezvous) return comm->calls.empty() ? kSuccess : run_together(*comm->members);
  int result = kSuccess;
  for (const Call& call : comm->calls) {
    if (const int failed = run_now(comm, call); failed != kSuccess) result = failed;
  }
  comm->calls.clear();
  return result;
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = 21903;
  return kSuccess;
}

const char* ncclGetErrorString(int result) {
  return result == kInvalidArgument ? "invalid argument" : "invalid usage";
}

int ncclCommInitAll(NcclComm** comms, int count, const int*) {
  auto* members = new std::vector<NcclComm*>();
  for (int rank = 0; rank < count; ++rank) {
    comms[rank] = new NcclComm{.members = members, .rank = static_cast<size_t>(rank)};
    members->push_back(comms[rank]);
    ++live_comms;
  }
  return kSuccess;
}

int ncclGetUniqueId(Id* id) {
  static std::atomic<int> next = 0;
  const std::string text = "stand-in " + std::to_string(++next);
  std::memcpy(id->bytes.data(), text.c_str(), text.size() + 1);
  return kSuccess;
}

int ncclCommInitRank(NcclComm** comm, int count, Id id, int rank) {
  const std::lock_guard lock(rendezvous_mutex);
  std::weak_ptr<Rendezvous>& place = rendezvous_by_id[id.bytes.data()];
  std::shared_ptr<Rendezvous> rendezvous = place.lock();
  if (!rendezvous) place = rendezvous = std::make_shared<Rendezvous>(static_cast<size_t>(count));
  *comm = new NcclComm{.rendezvous = rendezvous, .rank = static_cast<size_t>(rank)};
  ++live_comms;
  return kSuccess;
}

int ncclCommDestroy(NcclComm* comm) {
  if (std::vector<NcclComm*>* members = comm->members) {
    std::erase(*members, comm);
    if (members->empty()) delete members;
  }
  delete comm;
  --live_comms;
  return kSuccess;
}

int ncclCommAbort(NcclComm* comm) {
  if (comm->rendezvous) comm->rendezvous->abort();
  return ncclCommDestroy(comm);
}

int ncclGroupStart() {
  ++group_depth;
  return kSuccess;
}

int ncclAllReduce(const void* send, void* receive, size_t count, int dtype, int op, NcclComm* comm,
                  void*) {
  ++all_reduces;
  return add(comm, {Kind::AllReduce, send, receive, count, dtype, op});
}

int ncclBroadcast(const void* send, void* receive, size_t count, int dtype, int root,
                  NcclComm* comm, void*) {
  return add(comm, {Kind::Broadcast, send, receive, count, dtype, 0, root});
}

int ncclReduce(const void* send, void* receive, size_t count, int dtype, int op, int root,
               NcclComm* comm, void*) {
  return add(comm, {Kind::Reduce, send, receive, count, dtype, op, root});
}

int ncclReduceScatter(const void* send, void* receive, size_t receive_count, int dtype, int op,
                      NcclComm* comm, void*) {
  const size_t members = comm->rendezvous ? comm->rendezvous->size() : comm->members->size();
  return add(comm, {Kind::ReduceScatter, send, receive, receive_count * members, dtype, op});
}

int ncclGroupEnd() {
  if (--group_depth > 0) return kSuccess;
  int result = kSuccess;
  std::vector<NcclComm*> used;
  used.swap(active);
  for (NcclComm* comm : used) {
    if (const int failed = run_group(comm); failed != kSuccess) result = failed;
  }
  return result;
}

// For the tests: how often ncclAllReduce was called, and how many communicators there are.
int stand_in_all_reduces() { return all_reduces; }
int stand_in_live_comms() { return live_comms; }
}
