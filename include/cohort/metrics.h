#pragma once

#include "cohort/variable.h"

// Metrics over many batches. A metric keeps its state in variables, which are summed over the
// replicas of a strategy when they are read. The result therefore covers all data, whether update()
// is called inside replicas or outside. In a session's graph the variables are local: each worker
// has its own and initialises them with local_variables_initializer(). Tapes do not record metrics.

namespace cohort::metrics {

// Metric is the base of all metrics.
class Metric {
 public:
  virtual ~Metric() = default;
  // Returns a float64 scalar over everything since the last reset.
  // In a session's graph all calls return one node, unless control dependencies are open.
  virtual Tensor result() const = 0;
  void reset(Site site = Site::here());
  const std::string& name() const { return name_; }
  const std::vector<Variable>& variables() const { return state_; }

 protected:
  explicit Metric(std::string name) : name_(std::move(name)) {}
  // Makes a float64 sum of that shape, starting at 0.
  Variable add_sum(const std::string& label, const Shape& shape = {}, Site site = Site::here());
  // The line that made the metric. The nodes of the result count as made there.
  Site made_at() const { return made_at_; }

 private:
  std::string name_;
  std::vector<Variable> state_;
  Site made_at_ = {};
};

// Mean is the mean of all values, weighted if weights are given. The weights broadcast to the
// values. The result is 0 before the first value.
//
//   metrics::Mean mean_loss;
//   mean_loss.update(loss);
//   double so_far = mean_loss.result().to<double>();
//   mean_loss.reset();
class Mean : public Metric {
 public:
  explicit Mean(std::string name = "mean", Site site = Site::here());
  // An undefined tensor stands for no weights.
  void update(const Tensor& values, const Tensor& weights = {}, Site site = Site::here());
  Tensor result() const override;

 private:
  Variable total_;
  Variable count_;
};

// Accuracy is the share of predictions that equal their label. Their shapes must be equal.
class Accuracy : public Mean {
 public:
  explicit Accuracy(std::string name = "accuracy", Site site = Site::here())
      : Mean(std::move(name), site) {}
  void update(const Tensor& labels, const Tensor& predictions, Site site = Site::here());
};

// SparseCategoricalAccuracy is the share of rows whose largest score is at the label. Labels are
// integers of shape (n,), scores have shape (n, classes).
class SparseCategoricalAccuracy : public Mean {
 public:
  explicit SparseCategoricalAccuracy(std::string name = "sparse_categorical_accuracy",
                                     Site site = Site::here())
      : Mean(std::move(name), site) {}
  void update(const Tensor& labels, const Tensor& scores, Site site = Site::here());
};

// AucOptions sets how exactly Auc computes, and its name.
struct AucOptions {
  int thresholds = 200;  // at least 2; more are more exact
  std::string name = "auc";
};
// Auc is the area under the ROC curve: the probability that a positive example gets a higher score
// than a negative one. It is approximated by counts at evenly spaced thresholds. Outside a graph,
// update() throws InvalidArgument unless scores are in [0, 1] and labels are 0 or 1. The result is
// 0 while one of the classes is missing.
class Auc : public Metric {
 public:
  explicit Auc(const AucOptions& options = {}, Site site = Site::here());
  void update(const Tensor& labels, const Tensor& scores, Site site = Site::here());
  Tensor result() const override;

 private:
  int thresholds_;
  Variable positives_;  // scores above each threshold, among the positives
  Variable negatives_;
};

}  // namespace cohort::metrics
