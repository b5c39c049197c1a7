#pragma once

#include <string>
#include <vector>

#include "cohort/tensor.h"
#include "cohort/variable.h"

// Running figures over many batches. A metric keeps its state in variables that are summed over the
// replicas of a strategy when they are read. So the result is that of all the data, whether it was
// given inside replicas or outside. In a session's graph these are local variables: each worker has
// its own and initialises them by local_variables_initializer(). Tapes record none of this.

namespace cohort::metrics {

class Metric {
 public:
  virtual ~Metric() = default;
  // float64 scalar over everything since the last reset.
  virtual Tensor result() const = 0;
  void reset();
  const std::string& name() const { return name_; }
  const std::vector<Variable>& variables() const { return state_; }

 protected:
  explicit Metric(std::string name) : name_(std::move(name)) {}
  // A float64 sum of that shape, starting at 0.
  Variable add_sum(const std::string& label, const Shape& shape = {});

 private:
  std::string name_;
  std::vector<Variable> state_;
};

// The mean of all values given. With weights, which broadcast to the values, the weighted mean. 0
// before the first value.
class Mean : public Metric {
 public:
  explicit Mean(std::string name = "mean");
  void update(const Tensor& values);
  void update(const Tensor& values, const Tensor& weights);
  Tensor result() const override;

 private:
  Variable total_;
  Variable count_;
};

// The share of predictions that equal their label; shapes must be equal.
class Accuracy : public Mean {
 public:
  explicit Accuracy(std::string name = "accuracy") : Mean(std::move(name)) {}
  void update(const Tensor& labels, const Tensor& predictions);
};

// The share of rows whose largest score is at the label: labels of shape (n,), integers; scores
// (n, classes).
class SparseCategoricalAccuracy : public Mean {
 public:
  explicit SparseCategoricalAccuracy(std::string name = "sparse_categorical_accuracy")
      : Mean(std::move(name)) {}
  void update(const Tensor& labels, const Tensor& scores);
};

struct AucOptions {
  int thresholds = 200;
  std::string name = "auc";
};
// Area under the ROC curve: the chance that a positive gets a higher score than a negative.
// Scores are in [0, 1], labels 0 or 1 (InvalidArgument otherwise); approximated by counting at
// evenly spaced thresholds. 0 while one of the classes is missing.
class Auc : public Metric {
 public:
  explicit Auc(const AucOptions& options = {});
  void update(const Tensor& labels, const Tensor& scores);
  Tensor result() const override;

 private:
  int thresholds_;
  Variable positives_;  // scores above each threshold, among the positives
  Variable negatives_;
};

}  // namespace cohort::metrics
