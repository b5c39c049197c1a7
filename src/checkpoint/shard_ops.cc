// Saving and restoring as nodes of a graph, so that each task reads and writes its own disk.

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/mutex.h"
#include "base/raise.h"
#include "checkpoint/durable_file.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/shard_file.h"
#include "data/byte_source.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "ops/run_context.h"
#include "tensor/body.h"
#include "tensor/memory.h"

namespace cohort::internal {
namespace {

constexpr OpDef file_op(OpDef op) {
  op.no_gradient_because = "it reads or writes files";
  op.traits = Trait::HasEffect | Trait::HostOnly;
  return op;
}
constexpr DTypeSet kInt64Type{1u << static_cast<int>(kInt64)};

// Tensors that were taken for a save and are not on the disk yet.
class HeldTensors : public Resource {
 public:
  void put(std::vector<Tensor> tensors) {
    const std::lock_guard lock(mutex_);
    tensors_ = std::move(tensors);
  }
  std::vector<Tensor> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(tensors_, {});
  }

 private:
  Mutex mutex_;
  std::vector<Tensor> tensors_;  // guarded by mutex_
};

std::shared_ptr<HeldTensors> held_in(const Kernel& k, std::string_view op) {
  return require_run(k.run, op).resources().find_or_make<HeldTensors>(
      "localhost", "held_tensors", k.attrs.get<std::string>("slot"),
      [] { return std::make_shared<HeldTensors>(); });
}

void require_input(const OpInputs& inputs, size_t index, DType dtype, const Shape& shape) {
  if (inputs.dtype(index) == dtype && inputs.shape(index).is_compatible_with(shape)) return;
  raise(Code::InvalidArgument, "[{}] input {} must be {} {}, got {} {}", inputs.op, index,
        to_string(dtype), shape.to_string(), to_string(inputs.dtype(index)),
        inputs.shape(index).to_string());
}

// These ops touch files of checkpoints, and no others.
const std::string& checked_path(std::string_view op, const std::string& path) {
  if (is_data_file_name(file_name_of(path))) return path;
  raise(Code::InvalidArgument, "[{}] '{}' is not the name of a checkpoint's file", op, path);
}

Tensor int64_scalar(int64_t value) { return Tensor::from(std::vector<int64_t>{value}, Shape{}); }

void compute_hold(Kernel& k) {
  int64_t bytes = 0;
  for (const Tensor& tensor : k.inputs) bytes += tensor.size() * size_of(tensor.dtype());
  held_in(k, "HoldTensors")->put({k.inputs.begin(), k.inputs.end()});
  k.outputs[0] = int64_scalar(bytes);
}

KeyedTensors keyed(const std::vector<std::string>& keys, const std::vector<Tensor>& tensors) {
  if (keys.size() != tensors.size()) {
    raise(Code::FailedPrecondition,
          "[WriteShard] {} tensors are held, but {} are to be written: the task may have restarted "
          "since they were taken",
          tensors.size(), keys.size());
  }
  KeyedTensors result;
  for (size_t i = 0; i < keys.size(); ++i) result[keys[i]] = tensors[i];
  return result;
}

std::string shard_report(const WrittenShard& shard) {
  FileJson tensors = FileJson::object();
  for (const auto& [key, tensor] : shard.tensors) {
    tensors[key] = {{"shape", tensor.extent.shape.to_vector()},
                    {"begin", tensor.begin},
                    {"size", tensor.size},
                    {"crc32c", checksum_text(tensor.crc32c)}};
  }
  return dump_json({{"size", shard.size},
                    {"header_crc32c", checksum_text(shard.header_crc32c)},
                    {"device", shard.device},
                    {"tensors", std::move(tensors)}});
}

void compute_write(Kernel& k) {
  const std::string& path = checked_path("WriteShard", strings(k.inputs[0])[0]);
  const std::vector<Tensor> tensors = held_in(k, "WriteShard")->take();
  remove_abandoned_files(directory_of(path), is_checkpoint_file_name);
  WrittenShard written = write_shard(path, keyed(strings(k.inputs[1]), tensors));
  written.device = value_device().full_name;
  k.outputs[0] = Tensor(shard_report(written));
}

// Opens the file that a request begins with: its size, and the checksum of its header.
ReadFile open_requested(const std::string& path, std::span<const int64_t> request) {
  return open_shard(path, static_cast<uint64_t>(request[0]), static_cast<uint32_t>(request[1]));
}

// The request of ReadShard: the file's size, its header's checksum, and where which bytes are.
constexpr int64_t kRequestNumbers = 4;

void compute_read(Kernel& k) {
  const std::string& path = checked_path("ReadShard", strings(k.inputs[0])[0]);
  const std::span<const int64_t> request = k.inputs[1].data<int64_t>();
  const ReadFile file = open_requested(path, request);
  const auto begin = static_cast<uint64_t>(request[2]);
  const auto size = static_cast<uint64_t>(request[3]);
  if (size > file.size() || begin > file.size() - size) {
    raise(Code::InvalidArgument,
          "[ReadShard] {} bytes from byte {} on do not lie in '{}', which has {} bytes", size,
          begin, path, file.size());
  }
  const WritableTensor made = allocate_tensor(kUInt8, Shape{request[3]});
  file.read(begin, {made.data, size});
  k.outputs[0] = made.tensor;
}

// The request of LoadShard has after the file three numbers for each tensor.
constexpr size_t kFileNumbers = 2;
constexpr size_t kTensorNumbers = 3;

// Reads the bytes of one tensor, given where they begin, how many they are and their checksum.
std::string read_checked(const ReadFile& file, std::span<const int64_t> place) {
  const auto begin = static_cast<uint64_t>(place[0]);
  const auto size = static_cast<uint64_t>(place[1]);
  if (size > file.size()) {
    raise(Code::InvalidArgument, "[LoadShard] '{}' has {} bytes, expected at least {}", file.path(),
          file.size(), size);
  }
  std::string bytes(size, '\0');
  file.read(begin, std::as_writable_bytes(std::span(bytes)));
  if (data::internal::crc32c(bytes) == static_cast<uint32_t>(place[2])) return bytes;
  raise(Code::DataLoss, "[LoadShard] {} bytes from byte {} on of '{}' are damaged", size, begin,
        file.path());
}

Tensor tensor_of(const std::string& bytes, const Spec& spec, const std::string& path) {
  if (spec.dtype == kString) return decode_strings(bytes, spec.shape, "[LoadShard] " + path);
  if (bytes.size() != bytes_of(spec.dtype, spec.shape)) {
    raise(Code::InvalidArgument, "[LoadShard] {} elements of shape {} do not take {} bytes",
          to_string(spec.dtype), spec.shape.to_string(), bytes.size());
  }
  const WritableTensor made = allocate_tensor(spec.dtype, spec.shape);
  std::memcpy(made.data, bytes.data(), bytes.size());
  return made.tensor;
}

void compute_load(Kernel& k) {
  const std::string& path = checked_path("LoadShard", strings(k.inputs[0])[0]);
  const Specs specs = unpack_specs("LoadShard", k.attrs.integers("components"));
  const std::span<const int64_t> numbers = k.inputs[1].data<int64_t>();
  if (numbers.size() != kFileNumbers + kTensorNumbers * specs.size()) {
    raise(Code::InvalidArgument, "[LoadShard] {} numbers do not describe {} tensors",
          numbers.size(), specs.size());
  }
  const ReadFile file = open_requested(path, numbers);
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto place = numbers.subspan(kFileNumbers + kTensorNumbers * i, kTensorNumbers);
    k.outputs[i] = tensor_of(read_checked(file, place), specs[i], path);
  }
}

Specs infer_load(const OpInputs& inputs) {
  require_input(inputs, 0, kString, {});
  require_input(inputs, 1, kInt64, {-1});
  Specs specs = unpack_specs(inputs.op, inputs.attrs.integers("components"));
  for (const Spec& spec : specs) {
    if (spec.shape.is_fully_known()) continue;
    raise(Code::InvalidArgument, "[{}] shapes must be fully known, got {}", inputs.op,
          spec.shape.to_string());
  }
  return specs;
}

void compute_remove(Kernel& k) {
  int64_t removed = 0;
  for (const std::string& path : strings(k.inputs[0])) {
    removed += remove_file(checked_path("RemoveShards", path)) ? 1 : 0;
  }
  k.outputs[0] = int64_scalar(removed);
}

}  // namespace

// Keeps its inputs on its device, under `slot`, until WriteShard takes them; a later run replaces
// them. Returns the number of their bytes, an int64.
extern constexpr OpDef kHoldTensors{
    .name = "HoldTensors",
    .inputs = {0, kAnyNumber},
    .dtypes = kAnyType,
    .attrs = {{"slot", AttrKind::Text}},
    .infer = [](const OpInputs&) -> Specs {
      return {{kInt64, Shape{}}};
    },
    .compute = compute_hold,
    .no_gradient_because = "it keeps values for a checkpoint",
    .traits = Trait::HasEffect | Trait::HostOnly,
};

// Writes the tensors that are held under `slot` to a file. Inputs: its path, and a key for each
// tensor. Returns what parse_shard_report() reads. Must be placed with the node that holds the
// tensors.
extern constexpr OpDef kWriteShard = file_op({
    .name = "WriteShard",
    .inputs = 2,
    .dtypes = kStringType,
    .attrs = {{"slot", AttrKind::Text}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_input(inputs, 0, kString, {});
      require_input(inputs, 1, kString, {-1});
      return {{kString, Shape{}}};
    },
    .compute = compute_write,
});

// Returns bytes of a file as uint8. Inputs: its path, and an int64 request: the file's size, the
// checksum of its header, where the bytes begin, and how many there are.
extern constexpr OpDef kReadShard = file_op({
    .name = "ReadShard",
    .inputs = 2,
    .dtypes = kStringType | kInt64Type,
    .infer = [](const OpInputs& inputs) -> Specs {
      require_input(inputs, 0, kString, {});
      require_input(inputs, 1, kInt64, {kRequestNumbers});
      return {{kUInt8, Shape{-1}}};
    },
    .compute = compute_read,
});

// Returns tensors of a file, as `components` says, whose shapes are fully known. Inputs: the file's
// path, and an int64 request: the file's size, the checksum of its header, and for each tensor
// where its bytes begin, how many they are and their checksum. Throws DataLoss where a checksum
// differs.
extern constexpr OpDef kLoadShard = file_op({
    .name = "LoadShard",
    .inputs = 2,
    .dtypes = kStringType | kInt64Type,
    .attrs = {{"components", AttrKind::Ints}},
    .infer = infer_load,
    .compute = compute_load,
});

// Deletes the files that exist; returns how many did, an int64.
extern constexpr OpDef kRemoveShards = file_op({
    .name = "RemoveShards",
    .inputs = 1,
    .dtypes = kStringType,
    .infer = [](const OpInputs& inputs) -> Specs {
      require_input(inputs, 0, kString, {-1});
      return {{kInt64, Shape{}}};
    },
    .compute = compute_remove,
});

WrittenShard parse_shard_report(std::string_view text, const std::string& device) {
  const std::string from = "report of " + device;
  const FileJson report = parse_file_json(text, from);
  const JsonPlace place{from, {}};
  check_object(report, place);
  WrittenShard shard{.size = count_field(report, "size", place),
                     .header_crc32c = checksum_field(report, "header_crc32c", place),
                     .tensors = {},
                     .device = text_field(report, "device", place)};
  const FileJson& tensors = field(report, "tensors", place);
  check_object(tensors, place);
  for (const auto& [key, value] : tensors.items()) {
    const JsonPlace tensor{from, key};
    check_object(value, tensor);
    shard.tensors[key] = {.key = key,
                          .extent = whole_of(shape_field(value, "shape", tensor)),
                          .begin = count_field(value, "begin", tensor),
                          .size = count_field(value, "size", tensor),
                          .crc32c = checksum_field(value, "crc32c", tensor)};
  }
  return shard;
}

}  // namespace cohort::internal
