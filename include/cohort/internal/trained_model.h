#pragma once

// What a Trainer keeps of a model and of metrics, whatever their types. Users include
// cohort/trainer.h instead.

#include <concepts>
#include <functional>
#include <memory>
#include <vector>

#include "cohort/checkpoint.h"
#include "cohort/error.h"
#include "cohort/metrics.h"
#include "cohort/nn_layers.h"

namespace cohort::internal {

struct TrainedModel {
  template <std::derived_from<nn::Module> Model>
  explicit TrainedModel(const Model& model)
      : call([model](const Tensor& x, Site site) -> Tensor {
          if constexpr (TakesSite<Model>) {
            return model(x, site);
          } else {
            return model(x);
          }
        }),
        variables([model] { return model.trainable_variables(); }),
        all_variables([model] { return model.variables(); }),
        losses([model](Site site) { return model.losses(site); }),
        is_built([model] { return model.is_built(); }),
        set_training([copy = model](bool on) mutable { on ? copy.train() : copy.eval(); }),
        state(model) {}

  // Nodes that a layer of the library adds are made at `site`.
  std::function<Tensor(const Tensor&, Site site)> call;
  std::function<std::vector<Variable>()> variables;  // only those that learn
  std::function<std::vector<Variable>()> all_variables;
  std::function<std::vector<Tensor>(Site site)> losses;  // penalties of regularizers
  std::function<bool()> is_built;
  std::function<void(bool)> set_training;
  Trackable state;
};

// A metric of labels and outputs.
class MeasuredMetric {
 public:
  template <std::derived_from<metrics::Metric> M>
  MeasuredMetric(std::shared_ptr<M> metric)
      : metric_(metric), update_([metric](const Tensor& labels, const Tensor& outputs, Site site) {
          if constexpr (requires { metric->update(labels, outputs, site); }) {
            metric->update(labels, outputs, site);
          } else {
            metric->update(labels, outputs);
          }
        }) {}

  metrics::Metric& metric() const { return *metric_; }
  void update(const Tensor& labels, const Tensor& outputs, Site site) const {
    update_(labels, outputs, site);
  }

 private:
  std::shared_ptr<metrics::Metric> metric_;
  std::function<void(const Tensor&, const Tensor&, Site)> update_;
};

}  // namespace cohort::internal
