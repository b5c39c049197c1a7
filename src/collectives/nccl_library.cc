#include "collectives/nccl_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "base/log.h"
#include "base/mutex.h"
#include "base/raise.h"

namespace cohort::internal {
namespace {

std::string wanted_path() {
  const char* named = std::getenv("COHORT_NCCL_LIBRARY");
  return named != nullptr && *named != '\0' ? named : "libnccl.so.2";
}

std::string last_dl_error() {
  const char* text = dlerror();
  return text != nullptr ? text : "no reason given";
}

template <typename Function>
void find(void* handle, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(handle, name));
  if (function == nullptr) raise(Code::NotFound, "{}", last_dl_error());
}

// Never closed: NCCL has threads of its own.
std::unique_ptr<const NcclLibrary> load(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) raise(Code::NotFound, "{}", last_dl_error());
  auto library = std::make_unique<NcclLibrary>();
  library->path = path;
  find(handle, "ncclGetVersion", library->get_version);
  find(handle, "ncclGetErrorString", library->get_error_string);
  find(handle, "ncclCommInitAll", library->comm_init_all);
  find(handle, "ncclGetUniqueId", library->get_unique_id);
  find(handle, "ncclCommInitRank", library->comm_init_rank);
  find(handle, "ncclCommDestroy", library->comm_destroy);
  find(handle, "ncclCommAbort", library->comm_abort);
  find(handle, "ncclAllReduce", library->all_reduce);
  find(handle, "ncclBroadcast", library->broadcast);
  find(handle, "ncclReduce", library->reduce);
  find(handle, "ncclReduceScatter", library->reduce_scatter);
  find(handle, "ncclGroupStart", library->group_start);
  find(handle, "ncclGroupEnd", library->group_end);
  int version = 0;
  library->check(library->get_version(&version), "ncclGetVersion");
  log_info("[Nccl] loaded {}, version {}", path, version);
  return library;
}

std::unique_ptr<const NcclLibrary> try_load(const std::string& path) {
  std::unique_ptr<const NcclLibrary> library;
  const Status status = capture_status([&] { library = load(path); });
  if (!status.ok()) {
    log_warning("[Nccl] {} cannot be used ({}); reducing without it", path, status.message);
  }
  return library;
}

template <typename T, size_t count>
std::optional<int> number_in(const std::pair<T, int> (&numbers)[count], T what) {
  for (const auto& [known, number] : numbers) {
    if (known == what) return number;
  }
  return std::nullopt;
}

}  // namespace

void NcclLibrary::check(int result, std::string_view call) const {
  if (result == 0) return;
  raise(Code::Internal, "[Nccl] {} failed: {} (result {})", call, get_error_string(result), result);
}

const NcclLibrary* nccl_library() {
  static Mutex mutex;
  static std::map<std::string, std::unique_ptr<const NcclLibrary>> tried;
  const std::string path = wanted_path();
  const std::lock_guard lock(mutex);
  const auto found = tried.find(path);
  if (found != tried.end()) return found->second.get();
  return (tried[path] = try_load(path)).get();
}

std::optional<int> nccl_dtype(DType dtype) {
  constexpr std::pair<DType, int> kNumbers[] = {{kInt8, 0},    {kUInt8, 1},   {kInt32, 2},
                                                {kInt64, 4},   {kFloat16, 6}, {kFloat32, 7},
                                                {kFloat64, 8}, {kBFloat16, 9}};
  return number_in(kNumbers, dtype);
}

std::optional<int> nccl_op(ReduceOp op) {
  constexpr std::pair<ReduceOp, int> kNumbers[] = {
      {ReduceOp::Sum, 0}, {ReduceOp::Product, 1}, {ReduceOp::Max, 2}, {ReduceOp::Min, 3}};
  return number_in(kNumbers, op);
}

}  // namespace cohort::internal
