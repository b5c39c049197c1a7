#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "cohort/collective.h"
#include "cohort/cross_device_ops.h"
#include "ops/variable_cell.h"

namespace cohort::internal {

// The sums over workers of the gradients of variables. Dense ones are written into packs, memory
// that the workers of one machine share, and reduced there; of sparse ones the rows travel. The
// workers agree once for each list of variables which of them have rows; from then on a gradient
// that a worker does not have, or has in the other form, is no disagreement. Thread-safe.
class WorkerGradients {
 public:
  explicit WorkerGradients(Communicator workers) : workers_(std::move(workers)) {}

  // One for each variable; undefined where no worker has one. Dense ones lie in the packs: they are
  // good until the next call. All workers call it.
  std::vector<Gradient> sum(const std::vector<Gradient>& own,
                            const std::vector<Variable>& variables,
                            const CommunicationOptions& options);

 private:
  // Where the dense gradient of a variable lies.
  struct Place {
    size_t pack;
    size_t index;
  };
  // What the workers have agreed on for a list of variables.
  struct Layout {
    std::vector<VariableImpl*> variables = {};
    std::vector<bool> has_rows = {};
    std::vector<Place> places = {};  // of those without rows
    std::vector<Pack> packs = {};  // the last one has, for each variable, how many have a gradient
  };

  Layout& layout_for(const std::vector<Gradient>& own, const std::vector<Variable>& variables,
                     const CommunicationOptions& options);
  void agree_on_rows(Layout& layout, const std::vector<Gradient>& own);
  void make_packs(Layout& layout, const std::vector<Variable>& variables,
                  const CommunicationOptions& options);
  void reduce_packs(Layout& layout, const std::vector<Gradient>& own,
                    const CommunicationOptions& options);

  Communicator workers_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Layout>> layouts_;  // guarded by mutex_
};

}  // namespace cohort::internal
