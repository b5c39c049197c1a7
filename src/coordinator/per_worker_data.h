#pragma once

#include "cohort/per_worker.h"
#include "data/iterator.h"

namespace cohort::internal {

// The datasets of all workers, as what is sent to them. Constant.
class PerWorkerData {
 public:
  // `make` gives one worker's. Throws what create_per_worker_dataset says.
  PerWorkerData(int workers, const std::function<PerWorkerSpec()>& make);

  const data::Dataset& first() const { return *first_; }
  const std::string& description(int worker) const {
    return descriptions_.at(static_cast<size_t>(worker));
  }

 private:
  std::optional<data::Dataset> first_;
  std::vector<std::string> descriptions_;
};

// What stands here for the iterators that the workers have.
class PerWorkerSource : public data::internal::IteratorBase {
 public:
  explicit PerWorkerSource(std::shared_ptr<const PerWorkerData> data) : data_(std::move(data)) {}

  const std::string& description(int worker) const { return data_->description(worker); }
  std::string describe_dataset() const override { return data_->description(0); }
  std::optional<data::Element> next() override;
  std::string save() override;

 protected:
  std::optional<data::ElementSpec> find_spec() const override;

 private:
  const std::shared_ptr<const PerWorkerData> data_;
};

}  // namespace cohort::internal
