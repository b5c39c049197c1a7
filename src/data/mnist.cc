#include <filesystem>

#include "base/raise.h"
#include "cohort/data.h"

namespace cohort::data {
namespace {

std::string find(const std::string& directory, const std::string& name, std::string_view source) {
  for (const char* ending : {"", ".gz", ".zst"}) {
    const std::string path = directory + "/" + name + ending;
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path;
  }
  cohort::internal::raise(Code::NotFound,
                          "[Mnist] '{}/{}' does not exist, plain or with .gz or .zst; {}",
                          directory, name, source);
}

Dataset load(const std::string& directory, const std::string& name, std::string_view source) {
  const std::string images_path = find(directory, name + "-images-idx3-ubyte", source);
  const std::string labels_path = find(directory, name + "-labels-idx1-ubyte", source);
  const Tensor images = read_idx(images_path);
  const Tensor labels = read_idx(labels_path);
  if (images.dtype() != kUInt8 || images.rank() != 3) {
    cohort::internal::raise(Code::DataLoss, "[Mnist] '{}' holds {} of shape {}, not images",
                            images_path, to_string(images.dtype()), images.shape().to_string());
  }
  if (labels.dtype() != kUInt8 || labels.rank() != 1 || labels.size() != images.shape()[0]) {
    cohort::internal::raise(
        Code::DataLoss, "[Mnist] '{}' holds {} of shape {}, not labels of {} images", labels_path,
        to_string(labels.dtype()), labels.shape().to_string(), images.shape()[0]);
  }
  return from_tensor_slices(images, labels);
}

TrainAndTest load_both(const std::string& directory, std::string_view source) {
  return {load(directory, "train", source), load(directory, "t10k", source)};
}

}  // namespace

TrainAndTest mnist(const std::string& directory) {
  return load_both(
      directory,
      "Debian has no package of MNIST; put its four files there, or use fashion_mnist(), "
      "whose package is dataset-fashion-mnist");
}

TrainAndTest fashion_mnist(const std::string& directory) {
  return load_both(directory, "install it with: apt install dataset-fashion-mnist");
}

}  // namespace cohort::data
