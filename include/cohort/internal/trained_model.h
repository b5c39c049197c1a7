#pragma once

// What a Trainer keeps of a model and of metrics, whatever their types. Not for inclusion by users.

#include <concepts>
#include <functional>
#include <memory>
#include <vector>

#include "cohort/checkpoint.h"
#include "cohort/metrics.h"
#include "cohort/nn.h"

namespace cohort::internal {

struct TrainedModel {
  template <std::derived_from<nn::Module> Model>
  explicit TrainedModel(const Model& model)
      : call([model](const Tensor& x) -> Tensor { return model(x); }),
        variables([model] { return model.trainable_variables(); }),
        all_variables([model] { return model.variables(); }),
        losses([model] { return model.losses(); }),
        is_built([model] { return model.is_built(); }),
        set_training([copy = model](bool on) mutable { on ? copy.train() : copy.eval(); }),
        state(model) {}

  std::function<Tensor(const Tensor&)> call;
  std::function<std::vector<Variable>()> variables;  // those that learn
  std::function<std::vector<Variable>()> all_variables;
  std::function<std::vector<Tensor>()> losses;  // penalties of regularizers
  std::function<bool()> is_built;
  std::function<void(bool)> set_training;
  Trackable state;
};

// A figure over labels and outputs.
class MeasuredMetric {
 public:
  template <std::derived_from<metrics::Metric> M>
  MeasuredMetric(std::shared_ptr<M> metric)
      : metric_(metric), update_([metric](const Tensor& labels, const Tensor& outputs) {
          metric->update(labels, outputs);
        }) {}

  metrics::Metric& metric() const { return *metric_; }
  void update(const Tensor& labels, const Tensor& outputs) const { update_(labels, outputs); }

 private:
  std::shared_ptr<metrics::Metric> metric_;
  std::function<void(const Tensor&, const Tensor&)> update_;
};

}  // namespace cohort::internal
