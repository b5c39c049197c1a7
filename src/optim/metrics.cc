#include "cohort/metrics.h"

#include "base/raise.h"
#include "cohort/graph_variable.h"
#include "cohort/ops.h"
#include "graph/graph_impl.h"
#include "graph/scopes.h"
#include "ops/dispatch.h"
#include "ops/variable_cell.h"

namespace cohort::metrics {
namespace {

using internal::raise;
using internal::RecordingPause;
using internal::SiteScope;

void require_same_shape(std::string_view metric, const Tensor& labels, const Tensor& other,
                        std::string_view what) {
  if (labels.shape().is_compatible_with(other.shape())) return;
  raise(Code::InvalidArgument, "[{}] labels of shape {} do not fit {} of shape {}", metric,
        labels.shape().to_string(), what, other.shape().to_string());
}

void accumulate(const Variable& total, const Tensor& delta) {
  internal::VariableAccess::impl(total)->accumulate(delta);
}

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

Variable Metric::add_sum(const std::string& label, const Shape& shape, Site site) {
  const Initializer nothing = [shape] {
    const internal::LibraryCode here;
    return zeros(shape, kFloat64);
  };
  const VariableOptions options{.name = name_ + "/" + label,
                                .trainable = false,
                                .synchronization = VariableSynchronization::OnRead,
                                .aggregation = VariableAggregation::Sum};
  // Each worker has a count of its own and initialises it.
  const Variable variable = internal::builds_session_graph()
                                ? local_variable(nothing, options, site)
                                : Variable(nothing, options, site);
  state_.push_back(variable);
  made_at_ = site;
  return variable;
}

void Metric::reset(Site site) {
  const SiteScope there(site);
  for (Variable& variable : state_) variable.assign(zeros(variable.shape(), kFloat64));
}

Mean::Mean(std::string name, Site site)
    : Metric(std::move(name)),
      total_(add_sum("total", {}, site)),
      count_(add_sum("count", {}, site)) {}

void Mean::update(const Tensor& values, const Tensor& weights, Site site) {
  const SiteScope there(site);
  const RecordingPause pause;
  require_numbers("Mean", values);
  if (!weights.defined()) {
    accumulate(total_, sum(cast(values, kFloat64)));
    accumulate(count_, cast(size(values), kFloat64));
    return;
  }
  require_numbers("Mean", weights);
  const Tensor wide = cast(values, kFloat64);
  const Tensor each = broadcast_to(cast(weights, kFloat64), values.shape());
  accumulate(total_, sum(wide * each));
  accumulate(count_, sum(each));
}

Tensor Mean::result() const {
  const SiteScope there(made_at());
  const Tensor count = count_;
  const Tensor total = total_;
  return internal::keep_about("mean", {count, total}, [&] {
    const Tensor none = count == 0.0;
    return where(none, zeros_like(total), total / where(none, ones_like(count), count));
  });
}

void Accuracy::update(const Tensor& labels, const Tensor& predictions, Site site) {
  const SiteScope there(site);
  const RecordingPause pause;
  require_same_shape("Accuracy", labels, predictions, "predictions");
  Mean::update(equal(labels, predictions));
}

void SparseCategoricalAccuracy::update(const Tensor& labels, const Tensor& scores, Site site) {
  const SiteScope there(site);
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

Auc::Auc(const AucOptions& options, Site site)
    : Metric(options.name),
      thresholds_(checked_thresholds(options.thresholds)),
      positives_(add_sum("positives", {options.thresholds}, site)),
      negatives_(add_sum("negatives", {options.thresholds}, site)) {}

void Auc::update(const Tensor& labels, const Tensor& scores, Site site) {
  const SiteScope there(site);
  const RecordingPause pause;
  require_same_shape("Auc", labels, scores, "scores");
  const Tensor flat = reshape(cast(scores, kFloat64), {-1, 1});
  const Tensor truth = reshape(cast(labels, kFloat64), {-1, 1});
  if (!flat.is_symbolic() && !all((flat >= 0.0) & (flat <= 1.0)).to<bool>()) {
    raise(Code::InvalidArgument, "[Auc] scores must be in [0, 1]; apply sigmoid() to logits first");
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
  const SiteScope there(made_at());
  const Tensor hits = positives_;
  const Tensor alarms = negatives_;
  return internal::keep_about("auc", {hits, alarms}, [&] {
    const Tensor hit_rate = hits / maximum(hits[0], 1e-300);
    const Tensor alarm_rate = alarms / maximum(alarms[0], 1e-300);
    // The area is the sum of the trapezoids between neighbouring thresholds.
    const Tensor width = slice(alarm_rate, {{.end = -1}}) - slice(alarm_rate, {{.begin = 1}});
    const Tensor height = slice(hit_rate, {{.end = -1}}) + slice(hit_rate, {{.begin = 1}});
    return sum(width * height) * 0.5;
  });
}

}  // namespace cohort::metrics
