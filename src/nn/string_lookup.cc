#include <algorithm>
#include <unordered_set>

#include "base/raise.h"
#include "base/site_scope.h"
#include "cohort/nn_layers.h"

namespace cohort::nn {
namespace {

using cohort::internal::raise;

std::vector<std::string> checked(std::vector<std::string> vocabulary,
                                 const StringLookupOptions& options) {
  if (vocabulary.empty()) raise(Code::InvalidArgument, "[StringLookup] the vocabulary is empty");
  if (options.num_oov_indices != 0 && options.num_oov_indices != 1) {
    raise(Code::InvalidArgument, "[StringLookup] num_oov_indices must be 0 or 1, got {}",
          options.num_oov_indices);
  }
  if (options.num_oov_indices == 1) vocabulary.insert(vocabulary.begin(), options.oov_token);
  std::unordered_set<std::string_view> seen;
  for (const std::string& word : vocabulary) {
    if (seen.insert(word).second) continue;
    if (options.num_oov_indices == 1 && word == options.oov_token) {
      raise(Code::InvalidArgument,
            "[StringLookup] '{}' is in the vocabulary and also stands for unknown strings; leave "
            "it out, or set oov_token",
            word);
    }
    raise(Code::InvalidArgument, "[StringLookup] '{}' occurs twice in the vocabulary", word);
  }
  return vocabulary;
}

// A shape that reshape() takes: at most one size is unknown.
Shape shape_of_ids(const Tensor& strings) {
  const Shape shape = strings.shape();
  const auto is_unknown = [](int64_t size) { return size < 0; };
  if (strings.dtype() == kString && shape.has_rank() &&
      std::count_if(shape.begin(), shape.end(), is_unknown) <= 1) {
    return shape;
  }
  raise(Code::InvalidArgument,
        "[StringLookup] expected strings whose shape has at most one unknown size, got {} {}",
        to_string(strings.dtype()), shape.to_string());
}

}  // namespace

StringLookup::StringLookup(std::vector<std::string> vocabulary, const StringLookupOptions& options)
    : oov_(options.num_oov_indices),
      vocabulary_(Tensor::from(checked(std::move(vocabulary), options))) {}

Tensor StringLookup::operator()(const Tensor& strings, Site site) const {
  const cohort::internal::SiteScope there(site);
  const Shape shape = shape_of_ids(strings);
  const int64_t words = vocabulary_.size();
  // unique() numbers the words from 0 on, because they differ and come first; unknown strings get
  // larger numbers.
  const Tensor all = concat({vocabulary_, reshape(strings, {-1})}, 0);
  const Tensor found = reshape(slice(unique(all).inverse, {{.begin = words}}), shape);
  if (oov_ == 1) return where(found < words, found, int64_t{0});
  if (!found.is_symbolic() && found.size() > 0 && max(found).to<int64_t>() >= words) {
    const Tensor first =
        reshape(strings, {-1})[argmax(cast(reshape(found, {-1}) >= words, kInt64)).to<int64_t>()];
    raise(Code::InvalidArgument,
          "[StringLookup] '{}' is not in the vocabulary of {} strings; set num_oov_indices to 1 to "
          "give unknown strings an id",
          first.to<std::string>(), words);
  }
  // When a graph runs, this throws for a string that is not in the vocabulary.
  return gather(range(words, kInt64), found, 0);
}

Tensor StringLookup::inverse(const Tensor& ids, Site site) const {
  return gather(vocabulary_, ids, 0, site);
}

}  // namespace cohort::nn
