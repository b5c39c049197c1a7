#pragma once

#include "base/mutex.h"
#include "cohort/coordinator.h"
#include "data/iterator.h"

namespace cohort::internal {

// The datasets of all workers, in the form in which they are sent. Thread-safe.
class PerWorkerData {
 public:
  // `make` returns the dataset of one worker. Throws what create_per_worker_dataset() promises.
  PerWorkerData(int workers, std::function<PerWorkerSpec()> make);

  // The spec of the elements; nullopt for an empty dataset.
  const std::optional<data::ElementSpec>& element_spec() const;
  // How many replicas of a worker share its elements.
  size_t replicas() const { return replicas_; }
  // The serialized dataset of a worker, also of a worker that was added later.
  std::string description(int worker) const;

 private:
  // One worker's dataset, and how many replicas share its elements. A dataset that no strategy has
  // distributed goes whole to each replica.
  struct Pipeline {
    data::Dataset dataset;
    size_t replicas;
  };
  static Pipeline pipeline_in(const PerWorkerSpec& spec);
  Pipeline build(int worker, int workers) const;

  const std::function<PerWorkerSpec()> make_;
  std::optional<data::Dataset> first_;
  mutable OnceFlag spec_once_;
  mutable std::optional<data::ElementSpec> spec_;
  size_t replicas_ = 1;
  mutable Turn building_;  // of the thread that builds for a late worker, which calls the user
  mutable std::vector<std::string> descriptions_;  // guarded by building_
};

// Stands in this process for the iterators that the workers have.
class PerWorkerSource : public data::internal::IteratorBase {
 public:
  explicit PerWorkerSource(std::shared_ptr<const PerWorkerData> data) : data_(std::move(data)) {}

  std::string description(int worker) const { return data_->description(worker); }
  std::string describe_dataset() const override { return data_->description(0); }
  size_t replicas() const override { return data_->replicas(); }
  std::optional<data::Element> next() override;
  std::string save() override;

 protected:
  std::optional<data::ElementSpec> find_spec() const override { return data_->element_spec(); }

 private:
  const std::shared_ptr<const PerWorkerData> data_;
};

}  // namespace cohort::internal
