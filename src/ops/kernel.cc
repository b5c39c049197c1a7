#include "ops/kernel.h"

namespace cohort::internal {
namespace {

at::Tensor positions(const Tensor& texts, int64_t first) {
  const auto count = static_cast<int64_t>(strings(texts).size());
  return at::arange(first, first + count, at::kLong).reshape(sizes(body(texts).shape));
}

Tensor pick(const std::vector<std::string>& texts, const at::Tensor& positions) {
  const at::Tensor dense = positions.contiguous();
  const int64_t* at = dense.data_ptr<int64_t>();
  std::vector<std::string> picked;
  picked.reserve(static_cast<size_t>(dense.numel()));
  for (int64_t i = 0; i < dense.numel(); ++i) picked.push_back(texts[static_cast<size_t>(at[i])]);
  return make_strings(std::move(picked), shape_of(dense.sizes()));
}

bool is_text(const Tensor& x) { return body(x).dtype == kString; }

}  // namespace

at::Tensor movable(const Tensor& x) { return is_text(x) ? positions(x, 0) : aten(x); }

Tensor from_moved(const Tensor& x, at::Tensor moved) {
  return is_text(x) ? pick(strings(x), moved) : from_aten(std::move(moved));
}

Movables movables(std::span<const Tensor> tensors) {
  Movables joined;
  joined.are_strings = is_text(tensors[0]);
  joined.parts.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    if (!joined.are_strings) {
      joined.parts.push_back(aten(tensor));
      continue;
    }
    const std::vector<std::string>& texts = strings(tensor);
    joined.parts.push_back(positions(tensor, static_cast<int64_t>(joined.texts.size())));
    joined.texts.insert(joined.texts.end(), texts.begin(), texts.end());
  }
  return joined;
}

Tensor from_moved(const Movables& joined, at::Tensor moved) {
  return joined.are_strings ? pick(joined.texts, moved) : from_aten(std::move(moved));
}

}  // namespace cohort::internal
