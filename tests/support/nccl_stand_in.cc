// A stand-in for NCCL's C interface that reduces in host memory, so that what calls NCCL can be
// tested on machines without GPUs. As with NCCL, nothing happens before the group ends. It knows no
// 16-bit floats.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 4;
constexpr int kInvalidUsage = 5;

struct Call {
  const void* send;
  void* receive;
  size_t count;
  int dtype;
  int op;
};

int group_depth = 0;
int all_reduces = 0;
int live_comms = 0;

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

template <typename T>
void reduce(const std::vector<Call>& calls) {
  std::vector<T> total(calls[0].count);
  std::memcpy(total.data(), calls[0].send, calls[0].count * sizeof(T));
  for (size_t k = 1; k < calls.size(); ++k) {
    const T* next = static_cast<const T*>(calls[k].send);
    for (size_t i = 0; i < total.size(); ++i) total[i] = combine(calls[0].op, total[i], next[i]);
  }
  for (const Call& call : calls) {
    std::memcpy(call.receive, total.data(), total.size() * sizeof(T));
  }
}

int reduce_any(const std::vector<Call>& calls) {
  switch (calls[0].dtype) {
    case 0:
      reduce<int8_t>(calls);
      return kSuccess;
    case 1:
      reduce<uint8_t>(calls);
      return kSuccess;
    case 2:
      reduce<int32_t>(calls);
      return kSuccess;
    case 4:
      reduce<int64_t>(calls);
      return kSuccess;
    case 7:
      reduce<float>(calls);
      return kSuccess;
    case 8:
      reduce<double>(calls);
      return kSuccess;
    default:
      return kInvalidArgument;
  }
}

}  // namespace

extern "C" {

struct NcclComm {
  std::vector<Call> calls;  // since the group began
  std::vector<NcclComm*>* members;
};

static std::vector<NcclComm*>* active_members = nullptr;

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
    comms[rank] = new NcclComm{{}, members};
    members->push_back(comms[rank]);
    ++live_comms;
  }
  return kSuccess;
}

int ncclCommDestroy(NcclComm* comm) {
  std::vector<NcclComm*>* members = comm->members;
  std::erase(*members, comm);
  if (members->empty()) delete members;
  delete comm;
  --live_comms;
  return kSuccess;
}

int ncclGroupStart() {
  ++group_depth;
  return kSuccess;
}

int ncclAllReduce(const void* send, void* receive, size_t count, int dtype, int op, NcclComm* comm,
                  void*) {
  if (group_depth == 0) return kInvalidUsage;
  comm->calls.push_back({send, receive, count, dtype, op});
  active_members = comm->members;
  ++all_reduces;
  return kSuccess;
}

int ncclGroupEnd() {
  if (--group_depth > 0 || active_members == nullptr) return kSuccess;
  const std::vector<NcclComm*>& members = *active_members;
  active_members = nullptr;
  int result = kSuccess;
  for (size_t i = 0; i < members[0]->calls.size(); ++i) {
    std::vector<Call> together;
    for (const NcclComm* member : members) {
      if (member->calls.size() != members[0]->calls.size()) return kInvalidUsage;
      together.push_back(member->calls[i]);
    }
    if (const int failed = reduce_any(together); failed != kSuccess) result = failed;
  }
  for (NcclComm* member : members) member->calls.clear();
  return result;
}

// For the tests: how often ncclAllReduce was called, and how many communicators there are.
int stand_in_all_reduces() { return all_reduces; }
int stand_in_live_comms() { return live_comms; }
}
