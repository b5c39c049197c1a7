#include "distribute/reduce/worker_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <sstream>

#include "base/collective_purpose.h"
#include "base/raise.h"
#include "base/worker_outcomes.h"
#include "cohort/internal/worker_agreement.h"
#include "cohort/ops.h"
#include "distribute/contexts/distributed_values.h"
#include "distribute/reduce/tensor_reduction.h"
#include "distribute/strategies/worker_strategies.h"
#include "ops/dispatch.h"

namespace cohort::internal {
namespace {

// The order of axes that brings `axis` to the front, or from there back to its place.
std::vector<int64_t> front_and_back(int rank, int axis, bool back) {
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + (back ? 1 : axis), order.begin() + axis + 1);
  return order;
}

// Sizes along the axis may differ.
void check_gatherable_everywhere(Communicator& workers, const Tensor& value, int axis,
                                 const CollectiveOptions& how) {
  const Shape shape = value.shape();
  std::vector<int64_t> sizes(shape.begin(), shape.end());
  sizes[static_cast<size_t>(axis)] = Shape::kUnknownDim;
  const std::string own = to_string(value.dtype()) + " " + Shape(sizes).to_string();
  const std::vector<std::string> all =
      texts_of_workers(workers, fmt::format("{}\n{}\n{}", own, axis, describe(value)), how);
  for (int rank = 1; rank < workers.size(); ++rank) {
    const std::string& first = all[0];
    const std::string& other = all[static_cast<size_t>(rank)];
    if (first.substr(0, first.rfind('\n')) == other.substr(0, other.rfind('\n'))) continue;
    raise(Code::InvalidArgument,
          "[gather] the values of {} ({}) and {} ({}) cannot be put together along axis {}: dtype, "
          "rank and all other sizes must be the same",
          workers.member(0), first.substr(first.rfind('\n') + 1), workers.member(rank),
          other.substr(other.rfind('\n') + 1), axis);
  }
}

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
          "[all_reduce] {} of number {}: {} does not have it in all of its replicas; only Sum and "
          "Mean take what is undefined as zeros",
          to_string(op), i, workers.member(without));
  }
  const Gradient zero =
      zero_gradient(static_cast<DType>(known->dtype), Shape(known->sizes), has_rows);
  if (!own.defined()) return zero;
  if (!has_rows || own.is_sparse()) return own;
  const std::vector<Gradient> parts{own, zero};
  return join_slices(ReduceOp::Sum, parts);
}

std::vector<Gradient> fill_from_workers(Communicator& workers, ReduceOp op,
                                        std::vector<Gradient> values,
                                        const std::vector<bool>& lacks,
                                        const CommunicationOptions& options) {
  if (values.empty()) return values;
  const CollectivePurpose purpose(fmt::format("which of {} values there are", values.size()));
  const CollectiveOptions how = collective_options(options);
  const std::vector<uint8_t> own = forms_of(values, lacks);
  const auto forms = workers.all_gather(Tensor::from(own), how).to_vector<uint8_t>();
  bool is_same = std::find(own.begin(), own.end(), static_cast<uint8_t>(Form::Some)) == own.end();
  for (size_t k = 0; k < forms.size(); ++k) is_same &= forms[k] == own[k % own.size()];
  if (is_same) return values;
  std::vector<std::vector<KnownGradient>> all;
  for (const std::string& text : texts_of_workers(workers, write_gradients(values, own), how)) {
    all.push_back(read_gradients(text));
  }
  for (size_t i = 0; i < values.size(); ++i) values[i] = filled(op, values[i], i, workers, all);
  return values;
}

bool is_present(const Gradient& value) { return value.defined(); }
bool is_symbolic(const Gradient& value) {
  if (!value.defined()) return false;
  return value.is_sparse() ? value.slices().values.is_symbolic() : value.dense().is_symbolic();
}

// Whether a call becomes a node: a value is one already, or a graph is being built.
bool becomes_node(std::span<const Gradient> values) {
  return thread_dispatch().builder != nullptr ||
         std::any_of(values.begin(), values.end(), is_symbolic);
}

bool is_by_itself(StrategyExtended& extended) {
  const JointWorkers* workers = joint_workers(extended);
  return workers != nullptr && !workers->meets_others();
}

}  // namespace

CollectiveOptions collective_options(const CommunicationOptions& options) {
  CollectiveOptions result;
  // A time that does not fit into nanoseconds means no limit.
  constexpr double kMaxSeconds = 9e9;
  if (options.timeout_seconds && *options.timeout_seconds > 0 &&
      *options.timeout_seconds < kMaxSeconds) {
    result.timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(*options.timeout_seconds));
  }
  return result;
}

std::vector<std::string> texts_of_workers(Communicator& workers, const std::string& text,
                                          const CollectiveOptions& how) {
  const auto size = Tensor::from(std::vector<int64_t>{static_cast<int64_t>(text.size())});
  const std::vector<int64_t> sizes = workers.all_gather(size, how).to_vector<int64_t>();
  const Tensor bytes = Tensor::from(std::vector<uint8_t>(text.begin(), text.end()));
  const std::vector<uint8_t> joined = workers.all_gather(bytes, how).to_vector<uint8_t>();
  std::vector<std::string> texts;
  auto at = joined.begin();
  for (const int64_t each : sizes) {
    texts.emplace_back(at, at + each);
    at += each;
  }
  return texts;
}

void check_same_on_workers(Communicator& workers, const std::string& what,
                           const std::string& text) {
  const std::vector<std::string> all = texts_of_workers(workers, text);
  for (int rank = 1; rank < workers.size(); ++rank) {
    if (all[static_cast<size_t>(rank)] == all[0]) continue;
    raise(Code::FailedPrecondition,
          "[{}] the workers do not make the same program: {} has {}, {} has {}", what,
          workers.member(0), all[0], workers.member(rank), all[static_cast<size_t>(rank)]);
  }
}

std::vector<Gradient> WorkerCollectives::reduce(ReduceOp op, const std::vector<Gradient>& values,
                                                const CommunicationOptions& options) {
  const bool as_nodes = becomes_node(values);
  // Nodes gather rows, which is their sum; for other reductions they make the rows dense.
  const auto has_rows = [&](const Gradient& value) {
    return value.is_sparse() && (!as_nodes || op == ReduceOp::Sum);
  };
  std::vector<Tensor> dense;
  for (const Gradient& value : values) {
    if (!has_rows(value)) dense.push_back(value.dense());
  }
  if (!dense.empty()) {
    dense = as_nodes ? worker_all_reduce(entry_.number(), op, dense, options)
                     : all_reduce(op, dense, options);
  }
  std::vector<Gradient> results;
  auto next = dense.begin();
  for (const Gradient& value : values) {
    results.push_back(has_rows(value) ? Gradient(join_rows(op, value.slices(), as_nodes, options))
                                      : Gradient(*next++));
  }
  return results;
}

IndexedSlices WorkerCollectives::join_rows(ReduceOp op, const IndexedSlices& own, bool as_nodes,
                                           const CommunicationOptions& options) {
  if (as_nodes) {
    return {worker_all_gather(entry_.number(), own.values, 0, options),
            worker_all_gather(entry_.number(), own.indices, 0, options), own.dense_shape};
  }
  const GroupWaitClock::Scope rendezvous(*group_wait_);
  return workers_.all_reduce(own, op, collective_options(options));
}

std::vector<Gradient> WorkerCollectives::reduce_some(ReduceOp op, std::vector<Gradient> values,
                                                     const std::vector<bool>& lacks,
                                                     const CommunicationOptions& options) {
  const bool as_nodes = becomes_node(values);
  if (!as_nodes) {
    const GroupWaitClock::Scope rendezvous(*group_wait_);
    values = fill_from_workers(workers_, op, std::move(values), lacks, options);
  }
  std::vector<Gradient> present;
  std::copy_if(values.begin(), values.end(), std::back_inserter(present), is_present);
  // Other workers may have gradients: all workers meet here and see that.
  if (present.empty() && as_nodes && !values.empty()) {
    const Tensor nothing = zeros(Shape{});
    worker_all_reduce(entry_.number(), op, {&nothing, 1}, options);
  }
  present = reduce(op, present, options);
  auto next = present.begin();
  for (Gradient& value : values) {
    if (value.defined()) value = std::move(*next++);
  }
  return values;
}

Tensor WorkerCollectives::gather(const Tensor& value, int axis,
                                 const CommunicationOptions& options) {
  const Gradient one(value);
  if (becomes_node({&one, 1})) return worker_all_gather(entry_.number(), value, axis, options);
  return all_gather(value, axis, options);
}

Tensor WorkerCollectives::from_first(const Tensor& value, const CommunicationOptions& options) {
  const Gradient one(value);
  if (becomes_node({&one, 1})) return worker_broadcast(entry_.number(), value, options);
  return broadcast(value, options);
}

std::vector<Tensor> WorkerCollectives::all_reduce(ReduceOp op, std::span<const Tensor> values,
                                                  const CommunicationOptions& options) {
  const GroupWaitClock::Scope rendezvous(*group_wait_);
  return workers_.all_reduce(std::vector<Tensor>(values.begin(), values.end()), op,
                             collective_options(options));
}

Tensor WorkerCollectives::all_gather(const Tensor& value, int axis,
                                     const CommunicationOptions& options) {
  const GroupWaitClock::Scope rendezvous(*group_wait_);
  const Gradient one(value);
  check_gatherable("gather", {&one, 1}, axis);
  const CollectiveOptions how = collective_options(options);
  check_gatherable_everywhere(workers_, value, axis, how);
  if (axis == 0) return workers_.all_gather(value, how);
  const int rank = value.rank();
  const Tensor joined =
      workers_.all_gather(transpose(value, front_and_back(rank, axis, false)), how);
  return transpose(joined, front_and_back(rank, axis, true));
}

Tensor WorkerCollectives::broadcast(const Tensor& value, const CommunicationOptions& options) {
  const GroupWaitClock::Scope rendezvous(*group_wait_);
  return workers_.broadcast(value, 0, collective_options(options));
}

void on_each_worker(StrategyExtended& extended, const std::string& what,
                    const std::function<void()>& part) {
  if (is_by_itself(extended)) return part();
  const std::exception_ptr thrown = capture_exception(part);
  throw_first_failure(what, thrown, extended.gather_from_workers(outcome_text(thrown), what));
}

Tensor value_of_first_worker(StrategyExtended& extended, const std::string& what,
                             const Tensor& value) {
  if (is_by_itself(extended)) return value;
  const CollectivePurpose purpose(what);
  return extended.from_first_worker(value);
}

}  // namespace cohort::internal
