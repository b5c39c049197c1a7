#include "distribute/nccl_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>

#include "base/log.h"
#include "base/raise.h"
#include "cohort/device.h"
#include "tensor/memory.h"

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
  find(handle, "ncclCommDestroy", library->comm_destroy);
  find(handle, "ncclAllReduce", library->all_reduce);
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
    log_warning("[Nccl] {} cannot be used ({}); reducing on one device instead", path,
                status.message);
  }
  return library;
}

}  // namespace

void NcclLibrary::check(int result, std::string_view call) const {
  if (result == 0) return;
  raise(Code::Internal, "[Nccl] {} failed: {} (result {})", call, get_error_string(result), result);
}

const NcclLibrary* nccl_library() {
  static std::mutex mutex;
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

NcclGroups::~NcclGroups() {
  for (const auto& [key, comms] : groups_) {
    for (NcclComm* comm : comms) key.first->comm_destroy(comm);
  }
}

const NcclGroups::Comms& NcclGroups::comms_for(const NcclLibrary& library,
                                               const std::vector<int>& indices) {
  Comms& comms = groups_[{&library, indices}];
  if (comms.empty()) {
    Comms made(indices.size());
    library.check(library.comm_init_all(made.data(), static_cast<int>(made.size()), indices.data()),
                  "ncclCommInitAll");
    comms = std::move(made);
  }
  return comms;
}

namespace {

std::vector<int> indices_of(const std::vector<std::string>& devices) {
  std::vector<int> indices;
  for (const std::string& device : devices) {
    indices.push_back(DeviceName::parse(device).index.value_or(0));
  }
  return indices;
}

// Memory for the results, on the devices of the tensors.
std::vector<std::vector<WritableTensor>> allocate_results(
    const std::vector<std::vector<Tensor>>& tensors, const std::vector<std::string>& devices) {
  std::vector<std::vector<WritableTensor>> results(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (size_t k = 0; k < devices.size(); ++k) {
      const DeviceScope on(devices[k]);
      results[i].push_back(allocate_like(tensors[i][k]));
    }
  }
  return results;
}

// The first result that is not success.
class FirstFailure {
 public:
  void note(int result, std::string_view call) {
    if (result_ != 0) return;
    result_ = result;
    call_ = call;
  }
  void check(const NcclLibrary& library) const { library.check(result_, call_); }

 private:
  int result_ = 0;
  std::string_view call_;
};

}  // namespace

std::vector<std::vector<Tensor>> NcclGroups::all_reduce(
    const NcclLibrary& library, ReduceOp op, const std::vector<std::vector<Tensor>>& tensors,
    const std::vector<std::string>& devices) {
  const std::lock_guard lock(mutex_);
  const Comms& comms = comms_for(library, indices_of(devices));
  const auto results = allocate_results(tensors, devices);
  FirstFailure failure;
  failure.note(library.group_start(), "ncclGroupStart");
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (size_t k = 0; k < comms.size(); ++k) {
      const Tensor& own = tensors[i][k];
      // The stream is the default one, in whose order the kernel library's own work runs.
      failure.note(library.all_reduce(element_bytes(own), results[i][k].data,
                                      static_cast<size_t>(own.size()), *nccl_dtype(own.dtype()),
                                      *nccl_op(op), comms[k], nullptr),
                   "ncclAllReduce");
    }
  }
  failure.note(library.group_end(), "ncclGroupEnd");
  failure.check(library);
  std::vector<std::vector<Tensor>> reduced(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    for (const WritableTensor& result : results[i]) reduced[i].push_back(result.tensor);
  }
  return reduced;
}

}  // namespace cohort::internal
