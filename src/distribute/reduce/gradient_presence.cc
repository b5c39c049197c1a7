#include "distribute/reduce/gradient_presence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <sstream>

#include "base/collective_purpose.h"
#include "base/raise.h"
#include "cohort/ops.h"
#include "distribute/reduce/tensor_reduction.h"
#include "distribute/reduce/worker_collectives.h"
#include "distribute/variables/distributed_variable.h"

namespace cohort::internal {
namespace {

bool comes_as_rows(const Gradient& value) { return value.is_sparse(); }
bool is_missing(const Gradient& value) { return !value.defined(); }

// ", none for 'a', 'b'": the values with that property, by their names.
template <typename Name>
std::string named_where(std::string_view what, const std::vector<Gradient>& values,
                        bool (*has)(const Gradient&), const Name& name) {
  std::vector<std::string> found;
  for (size_t i = 0; i < values.size(); ++i) {
    if (has(values[i])) found.push_back(name(i));
  }
  return found.empty() ? "" : fmt::format(", {} for {}", what, fmt::join(found, ", "));
}

template <typename Name>
std::string presence_text(const std::vector<Gradient>& values, const Name& name) {
  return named_where("none", values, is_missing, name) +
         named_where("rows", values, comes_as_rows, name);
}

}  // namespace

Gradient zero_like(const Gradient& other) {
  if (!other.is_sparse()) return zeros_like(other.dense());
  const IndexedSlices& slices = other.slices();
  const std::vector<Range> none{{.begin = 0, .end = 0}};
  return IndexedSlices{slice(slices.values, none), slice(slices.indices, none), slices.dense_shape};
}

Gradient zero_gradient(DType dtype, const Shape& shape, bool has_rows) {
  if (!has_rows) return zeros(shape, dtype);
  return IndexedSlices{zeros(shape.with(0, 0), dtype), zeros({0}, kInt64), shape};
}

std::string describe_presence(const std::vector<Gradient>& values) {
  const std::string different =
      presence_text(values, [](size_t i) { return fmt::format("number {}", i); });
  if (different.empty()) return "all_reduce";
  return fmt::format("all_reduce of {} values{}", values.size(), different);
}

std::string describe_presence(const std::vector<Gradient>& gradients,
                              const std::vector<Variable>& variables) {
  uint64_t list = 0;
  for (const std::string& label : labels_of(variables)) {
    list = XXH3_64bits_withSeed(label.data(), label.size(), list);
  }
  return fmt::format(
      "the gradients of {} variables [{:x}]{}", variables.size(), list,
      presence_text(gradients, [&](size_t i) { return fmt::format("'{}'", variables[i].name()); }));
}

bool fill_undefined(ReduceOp op, std::vector<Gradient>& parts) {
  const auto known = std::ranges::find_if(parts, &Gradient::defined);
  if (known == parts.end()) return false;
  if (op != ReduceOp::Sum && op != ReduceOp::Mean) return true;
  const Gradient other = *known;
  for (Gradient& part : parts) {
    if (!part.defined()) part = zero_like(other);
  }
  return true;
}

// ---- Gradients that some workers do not have

namespace {

// What a worker has of a gradient.
enum class Form : uint8_t { None, Dense, Rows, Some };

struct KnownGradient {
  Form form = Form::None;
  int dtype = 0;
  std::vector<int64_t> sizes = {};
};

std::vector<uint8_t> forms_of(const std::vector<Gradient>& values, const std::vector<bool>& lacks) {
  std::vector<uint8_t> forms;
  for (size_t i = 0; i < values.size(); ++i) {
    const Form form = lacks[i]                ? Form::Some
                      : !values[i].defined()  ? Form::None
                      : values[i].is_sparse() ? Form::Rows
                                              : Form::Dense;
    forms.push_back(static_cast<uint8_t>(form));
  }
  return forms;
}

// One line for each gradient: its form, dtype and sizes.
std::string write_gradients(const std::vector<Gradient>& values,
                            const std::vector<uint8_t>& forms) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    text += std::to_string(forms[i]);
    if (values[i].defined()) {
      const bool has_rows = values[i].is_sparse();
      const Tensor& held = has_rows ? values[i].slices().values : values[i].dense();
      text += fmt::format(" {}", static_cast<int>(held.dtype()));
      const Shape shape = has_rows ? values[i].slices().dense_shape : held.shape();
      for (const int64_t size : shape) text += fmt::format(" {}", size);
    }
    text += '\n';
  }
  return text;
}

std::vector<KnownGradient> read_gradients(const std::string& text) {
  std::vector<KnownGradient> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    KnownGradient known;
    int form = 0;
    fields >> form >> known.dtype;
    known.form = static_cast<Form>(form);
    for (int64_t size = 0; fields >> size;) known.sizes.push_back(size);
    all.push_back(std::move(known));
  }
  return all;
}

// Gradient number `i` in the form that the workers agree on. The first worker that has the gradient
// says its dtype and shape.
Gradient filled(ReduceOp op, const Gradient& own, size_t i, const Communicator& workers,
                const std::vector<std::vector<KnownGradient>>& all) {
  const KnownGradient* known = nullptr;
  bool has_rows = false;
  int without = -1;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const KnownGradient& its = all[rank][i];
    if (its.form == Form::None || its.form == Form::Some) without = static_cast<int>(rank);
    if (known == nullptr && its.form != Form::None) known = &its;
    has_rows |= its.form == Form::Rows;
  }
  if (known == nullptr) return {};
  if (op != ReduceOp::Sum && without >= 0) {
    raise(Code::InvalidArgument,
          "[all_reduce] {} needs value number {}, but {} does not have it in all of its replicas; "
          "only Sum and Mean treat undefined values as zeros",
          to_string(op), i, workers.member(without));
  }
  const Gradient zero =
      zero_gradient(static_cast<DType>(known->dtype), Shape(known->sizes), has_rows);
  if (!own.defined()) return zero;
  if (!has_rows || own.is_sparse()) return own;
  const std::vector<Gradient> parts{own, zero};
  return join_slices(ReduceOp::Sum, parts);
}

}  // namespace

std::vector<Gradient> fill_from_workers(Communicator& workers, ReduceOp op,
                                        std::vector<Gradient> values,
                                        const std::vector<bool>& lacks,
                                        const CommunicationOptions& options) {
  if (values.empty()) return values;
  const CollectivePurpose purpose(fmt::format("which of {} values there are", values.size()));
  const std::vector<uint8_t> own = forms_of(values, lacks);
  const auto forms = workers.all_gather(Tensor::from(own), options).to_vector<uint8_t>();
  bool is_same = std::find(own.begin(), own.end(), static_cast<uint8_t>(Form::Some)) == own.end();
  for (size_t k = 0; k < forms.size(); ++k) is_same &= forms[k] == own[k % own.size()];
  if (is_same) return values;
  std::vector<std::vector<KnownGradient>> all;
  for (const std::string& text : texts_of_workers(workers, write_gradients(values, own), options)) {
    all.push_back(read_gradients(text));
  }
  for (size_t i = 0; i < values.size(); ++i) values[i] = filled(op, values[i], i, workers, all);
  return values;
}

}  // namespace cohort::internal
