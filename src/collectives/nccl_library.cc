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
  switch (dtype) {
    case kInt8:
      return 0;
    case kUInt8:
      return 1;
    case kInt32:
      return 2;
    case kInt64:
      return 4;
    case kFloat16:
      return 6;
    case kFloat32:
      return 7;
    case kFloat64:
      return 8;
    case kBFloat16:
      return 9;
    default:
      return std::nullopt;
  }
}

std::optional<int> nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return 0;
    case ReduceOp::Product:
      return 1;
    case ReduceOp::Max:
      return 2;
    case ReduceOp::Min:
      return 3;
    case ReduceOp::Mean:
      break;
  }
  return std::nullopt;
}

}  // namespace cohort::internal
