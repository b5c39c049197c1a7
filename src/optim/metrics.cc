#include "cohort/metrics.h"

#include "base/raise.h"
#include "cohort/graph_variable.h"
#include "cohort/ops.h"
#include "ops/dispatch.h"
#include "ops/variable_cell.h"
#include "variables/graph_variable.h"

namespace cohort::metrics {
namespace {

using internal::raise;
using internal::RecordingPause;

void require_same_shape(std::string_view metric, const Tensor& labels, const Tensor& other,
                        std::string_view what) {
  if (labels.shape().is_compatible_with(other.shape())) return;
  raise(Code::InvalidArgument, "[{}] labels of shape {} do not fit {} of shape {}", metric,
        labels.shape().to_string(), what, other.shape().to_string());
}

void accumulate(const Variable& total, const Tensor& delta) {
  internal::VariableAccess::impl(total)->accumulate(delta);
}

}  // namespace

Variable Metric::add_sum(const std::string& label, const Shape& shape) {
  const Initializer nothing = [shape] { return zeros(shape, kFloat64); };
  const VariableOptions options{.name = name_ + "/" + label,
                                .trainable = false,
                                .synchronization = VariableSynchronization::OnRead,
                                .aggregation = VariableAggregation::Sum};
  // Each worker has a count of its own and initialises it.
  const Variable variable = internal::builds_session_graph() ? local_variable(nothing, options)
                                                             : Variable(nothing, options);
  state_.push_back(variable);
  return variable;
}

void Metric::reset() {
  for (Variable& variable : state_) variable.assign(zeros(variable.shape(), kFloat64));
}

namespace {

int checked_thresholds(int thresholds) {
  if (thresholds >= 2) return thresholds;
  raise(Code::InvalidArgument, "[Auc] needs at least 2 thresholds, got {}", thresholds);
}

void require_numbers(std::string_view metric, const Tensor& values) {
  if (is_numeric(values.dtype())) return;
  raise(Code::InvalidArgument, "[{}] values must be numbers, got {}", metric,
        to_string(values.dtype()));
}

}  // namespace

Mean::Mean(std::string name)
    : Metric(std::move(name)), total_(add_sum("total")), count_(add_sum("count")) {}

void Mean::update(const Tensor& values) {
  const RecordingPause pause;
  require_numbers("Mean", values);
  accumulate(total_, sum(cast(values, kFloat64)));
  accumulate(count_, cast(size(values), kFloat64));
}

void Mean::update(const Tensor& values, const Tensor& weights) {
  const RecordingPause pause;
  require_numbers("Mean", values);
  require_numbers("Mean", weights);
  const Tensor wide = cast(values, kFloat64);
  const Tensor each = broadcast_to(cast(weights, kFloat64), values.shape());
  accumulate(total_, sum(wide * each));
  accumulate(count_, sum(each));
}

Tensor Mean::result() const {
  const Tensor count = count_.read_value();
  const Tensor total = total_.read_value();
  const Tensor none = count == 0.0;
  return where(none, zeros_like(total), total / where(none, ones_like(count), count));
}

void Accuracy::update(const Tensor& labels, const Tensor& predictions) {
  const RecordingPause pause;
  require_same_shape("Accuracy", labels, predictions, "predictions");
  Mean::update(equal(labels, predictions));
}

void SparseCategoricalAccuracy::update(const Tensor& labels, const Tensor& scores) {
  const RecordingPause pause;
  if (!is_integer(labels.dtype())) {
    raise(Code::InvalidArgument,
          "[SparseCategoricalAccuracy] labels must be integers, got {}; cast() them",
          to_string(labels.dtype()));
  }
  if (scores.rank() != 2) {
    raise(Code::InvalidArgument,
          "[SparseCategoricalAccuracy] scores must have shape (n, classes), got {}",
          scores.shape().to_string());
  }
  const Tensor predicted = argmax(scores, 1);
  require_same_shape("SparseCategoricalAccuracy", labels, predicted, "scores");
  Mean::update(equal(cast(labels, kInt64), predicted));
}

Auc::Auc(const AucOptions& options)
    : Metric(options.name),
      thresholds_(checked_thresholds(options.thresholds)),
      positives_(add_sum("positives", {options.thresholds})),
      negatives_(add_sum("negatives", {options.thresholds})) {}

void Auc::update(const Tensor& labels, const Tensor& scores) {
  const RecordingPause pause;
  require_same_shape("Auc", labels, scores, "scores");
  const Tensor flat = reshape(cast(scores, kFloat64), {-1, 1});
  const Tensor truth = reshape(cast(labels, kFloat64), {-1, 1});
  if (!flat.is_symbolic() && !all((flat >= 0.0) & (flat <= 1.0)).to<bool>()) {
    raise(Code::InvalidArgument, "[Auc] scores must be in [0, 1]; sigmoid() makes them so");
  }
  if (!truth.is_symbolic() && any((truth != 0.0) & (truth != 1.0)).to<bool>()) {
    raise(Code::InvalidArgument, "[Auc] labels must be 0 or 1");
  }
  // The ends lie just outside [0, 1], so that the curve starts and ends in its corners.
  const Tensor inner = linspace(0.0, 1.0, thresholds_, kFloat64);
  const Tensor thresholds = inner * (1 + 2e-7) - 1e-7;
  const Tensor above = cast(flat > reshape(thresholds, {1, thresholds_}), kFloat64);
  accumulate(positives_, sum(above * truth, 0));
  accumulate(negatives_, sum(above * (1.0 - truth), 0));
}

Tensor Auc::result() const {
  const Tensor hits = positives_.read_value();
  const Tensor alarms = negatives_.read_value();
  const Tensor hit_rate = hits / maximum(hits[0], 1e-300);
  const Tensor alarm_rate = alarms / maximum(alarms[0], 1e-300);
  // The area is the sum of the trapezoids between neighbouring thresholds.
  const Tensor width = slice(alarm_rate, {{.end = -1}}) - slice(alarm_rate, {{.begin = 1}});
  const Tensor height = slice(hit_rate, {{.end = -1}}) + slice(hit_rate, {{.begin = 1}});
  return sum(width * height) * 0.5;
}

}  // namespace cohort::metrics
