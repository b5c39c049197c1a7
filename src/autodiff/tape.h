#pragma once

#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cohort/gradient.h"
#include "ops/dispatch.h"

namespace cohort::internal {

// The record of a GradientTape: the op calls of one thread that depend on a watched tensor.
class Tape : public Recorder {
 public:
  explicit Tape(const TapeOptions& options);
  ~Tape() override;

  bool wants(std::span<const Tensor> inputs) const override;
  void record(const OpCall& call) override;
  void variable_read(const Tensor& handle, const Tensor& value, bool trainable) override;

  void watch(const Tensor& tensor);
  void watch(const Tensor& handle, const Tensor& value);

  // Whether `tensor` was watched, or computed from a watched tensor.
  bool is_watched(const Tensor& tensor) const {
    return watched_.contains(TensorAccess::id(tensor));
  }
  // The values of a variable that computations on this tape started from, and its handle where
  // functions of a graph took it to read the variable themselves.
  std::vector<Tensor> reads(const Tensor& handle) const;

  // The recorded calls. A tape that is not persistent gives them away, stops recording and holds
  // nothing afterwards; another call then throws FailedPrecondition.
  std::vector<OpCall> take_calls();

  void reset();
  void pause() { ++pauses_; }
  void resume() { --pauses_; }

 private:
  void start();
  void stop();
  void forget();
  void note_read(const Tensor& handle, const Tensor& value);

  const TapeOptions options_;
  bool recording_ = false;
  bool spent_ = false;
  int pauses_ = 0;
  std::vector<OpCall> calls_;
  // Watched tensors and what was computed from them. calls_, watched_tensors_ and reads_ hold them,
  // so that no identity is used twice.
  std::unordered_set<const TensorBody*> watched_;
  std::vector<Tensor> watched_tensors_;
  // By variable: its handle, and the values read from it.
  struct Reads {
    Tensor handle;
    std::vector<Tensor> values;
  };
  std::unordered_map<const TensorBody*, Reads> reads_;
  std::unordered_set<const TensorBody*> watched_handles_;
  std::unordered_set<const TensorBody*> used_handles_;  // by calls on the tape
};

}  // namespace cohort::internal
