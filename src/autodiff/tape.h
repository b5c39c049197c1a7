#pragma once

#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cohort/gradient.h"
#include "ops/dispatch.h"
#include "ops/variable_cell.h"

namespace cohort::internal {

// What a GradientTape records: the op calls of one thread that depend on something watched.
class Tape : public Recorder {
 public:
  explicit Tape(const TapeOptions& options);
  ~Tape() override;

  bool wants(std::span<const Tensor> inputs) const override;
  void record(const OpCall& call) override;
  void variable_read(const std::shared_ptr<VariableCell>& cell, const Tensor& value,
                     bool trainable) override;

  void watch(const Tensor& tensor);
  void watch(const std::shared_ptr<VariableCell>& cell, const Tensor& value);

  // The values of a variable that computations on this tape started from.
  std::vector<Tensor> reads(const std::shared_ptr<VariableCell>& cell) const;

  // What was recorded. A tape that is not persistent gives it away and stops recording; asked again,
  // it throws FailedPrecondition.
  std::vector<OpCall> take_calls();

  void reset();
  void pause() { ++pauses_; }
  void resume() { --pauses_; }

 private:
  void start();
  void stop();
  void note_read(const std::shared_ptr<VariableCell>& cell, const Tensor& value);

  const TapeOptions options_;
  bool recording_ = false;
  bool spent_ = false;
  int pauses_ = 0;
  std::vector<OpCall> calls_;
  // Watched tensors and what was computed from them. calls_, watched_tensors_ and reads_ hold them,
  // so that no identity is used twice.
  std::unordered_set<const TensorBody*> watched_;
  std::vector<Tensor> watched_tensors_;
  std::unordered_map<std::shared_ptr<VariableCell>, std::vector<Tensor>> reads_;
  std::unordered_set<std::shared_ptr<VariableCell>> watched_cells_;
};

}  // namespace cohort::internal
