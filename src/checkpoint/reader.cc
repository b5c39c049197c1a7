// What users look into checkpoints and safetensors files with.

#include "base/raise.h"
#include "checkpoint/contents.h"
#include "cohort/checkpoint.h"
#include "tensor/memory.h"

namespace cohort {

CheckpointReader::CheckpointReader(std::string_view prefix)
    : files_(std::make_shared<internal::CheckpointFiles>(prefix)) {}

const std::string& CheckpointReader::prefix() const { return files_->prefix(); }
std::optional<int64_t> CheckpointReader::step() const { return files_->manifest().step; }

std::chrono::system_clock::time_point CheckpointReader::saved_at() const {
  return internal::from_ms(files_->manifest().saved_at_ms);
}

std::vector<SavedTensor> CheckpointReader::tensors() const {
  std::vector<SavedTensor> tensors;
  for (const auto& [name, entry] : files_->manifest().tensors) {
    tensors.push_back({name, entry.dtype, entry.shape});
  }
  return tensors;
}

bool CheckpointReader::contains(std::string_view name) const {
  return files_->manifest().tensors.contains(std::string(name));
}

std::vector<std::string> CheckpointReader::files() const {
  std::vector<std::string> paths;
  for (const auto& file : files_->manifest().files) paths.push_back(files_->path_of(file));
  return paths;
}

Tensor CheckpointReader::read(std::string_view name) const { return files_->read(name); }

Tensor CheckpointReader::read_slice(std::string_view name, const std::vector<int64_t>& offset,
                                    const Shape& shape) const {
  return files_->read(name, {offset, shape});
}

void CheckpointReader::verify() const { files_->verify(); }

void save_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (is_numeric(tensor.dtype())) continue;
    internal::raise(Code::InvalidArgument,
                    "[Safetensors] tensor '{}' is {}; the format has numbers only", name,
                    to_string(tensor.dtype()));
  }
  const std::string name = internal::file_name_of(path);
  internal::remove_abandoned_files(internal::folder_of(path),
                                   [&](std::string_view left) { return left == name; });
  internal::write_shard(path, tensors);
}

std::map<std::string, Tensor> load_safetensors(const std::string& path) {
  const internal::ReadFile file(path);
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, entry] :
       internal::parse_header(internal::read_header(file), file.size(), path)) {
    const internal::WritableTensor made = internal::allocate_tensor(entry.dtype, entry.shape);
    file.read(entry.begin, {made.data, entry.size});
    tensors[name] = made.tensor;
  }
  return tensors;
}

}  // namespace cohort
