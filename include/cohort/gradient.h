#pragma once

#include <optional>

#include "cohort/internal/owned.h"
#include "cohort/tensor.h"

namespace cohort {

class Variable;

// IndexedSlices holds some rows of a tensor whose other rows are zero. The gradient of a look-up in
// a large table has this form: it names the rows that were read and leaves the others out. If a row
// occurs several times, its values add up.
struct IndexedSlices {
  Tensor values;      // shape (n, ...)
  Tensor indices;     // shape (n,), int64
  Shape dense_shape;  // of the whole tensor

  Tensor to_dense(Site site = Site::here()) const;
};

// Gradient is the derivative of a target with respect to a source: a tensor, some rows of a tensor,
// or nothing if the source does not influence the target. It converts to a Tensor with all rows.
class Gradient {
 public:
  Gradient() = default;
  Gradient(Tensor dense);
  Gradient(IndexedSlices slices);

  bool defined() const { return dense_.defined() || slices_ != nullptr; }
  bool is_sparse() const { return slices_ != nullptr; }
  // Throws FailedPrecondition unless is_sparse().
  const IndexedSlices& slices() const;
  // Throws FailedPrecondition unless defined().
  Tensor dense(Site site = Site::here()) const;
  operator Tensor() const { return dense({}); }

 private:
  Tensor dense_;
  std::shared_ptr<const IndexedSlices> slices_;
};
using Gradients = std::vector<Gradient>;
std::ostream& operator<<(std::ostream& out, const Gradient& gradient);

// What tape.gradient() returns for a source without influence: an undefined gradient, or zeros.
enum class Unconnected { None, Zero };

// GradientOptions sets where derivatives begin and what unconnected sources get.
struct GradientOptions {
  // d(result)/d(target) for each target. Empty means ones.
  std::vector<Tensor> output_gradients = {};
  Unconnected unconnected = Unconnected::None;
};

// TapeOptions sets what a GradientTape watches and how often it can be used.
struct TapeOptions {
  bool persistent = false;      // several gradient() calls; keeps everything while it exists
  bool watch_variables = true;  // watch trainable variables when they are read
};

// GradientTape records what this thread computes from watched values, and returns derivatives.
//
//   GradientTape tape;
//   Tensor error = nn::mean_squared_error(model(x), y);
//   Gradients gradients = tape.gradient(error, model.trainable_variables());
//   optimizer.apply_gradients(gradients, model.trainable_variables());
//
// A tape belongs to the thread that made it; operations of other threads are not recorded. Tapes
// nest: the outer tape also records how the inner tape computes gradients, which gives second
// derivatives. Unless the tape is persistent, gradient() ends the recording and frees what it held.
class GradientTape {
 public:
  explicit GradientTape(TapeOptions options = {});
  ~GradientTape();
  GradientTape(const GradientTape&) = delete;
  GradientTape& operator=(const GradientTape&) = delete;

  // Records from now on what is computed from a floating value. Throws InvalidArgument for others.
  void watch(const Tensor& tensor);
  void watch(const Variable& variable, Site site = Site::here());

  // Returns d(target)/d(source), summed over the elements of the target. A source that was not
  // watched counts as unconnected. Throws FailedPrecondition if the tape is not persistent and this
  // is the second call. Throws Unimplemented, naming the op, if an op without a gradient connects
  // the source with the target.
  Gradient gradient(const Tensor& target, const Tensor& source, const GradientOptions& options = {},
                    Site site = Site::here());
  Gradient gradient(const Tensor& target, const Variable& source,
                    const GradientOptions& options = {}, Site site = Site::here());
  Gradients gradient(const Tensor& target, const std::vector<Tensor>& sources,
                     const GradientOptions& options = {}, Site site = Site::here());
  Gradients gradient(const Tensor& target, const std::vector<Variable>& sources,
                     const GradientOptions& options = {}, Site site = Site::here());
  // The same for lists in braces: tape.gradient(loss, {w, b}).
  Gradients gradient(const Tensor& target, std::initializer_list<Tensor> sources,
                     const GradientOptions& options = {}, Site site = Site::here());
  Gradients gradient(const Tensor& target, std::initializer_list<Variable> sources,
                     const GradientOptions& options = {}, Site site = Site::here());
  // The same for the sum of several targets.
  Gradients gradient(const std::vector<Tensor>& targets, const std::vector<Tensor>& sources,
                     const GradientOptions& options = {}, Site site = Site::here());
  Gradients gradient(const std::vector<Tensor>& targets, const std::vector<Variable>& sources,
                     const GradientOptions& options = {}, Site site = Site::here());

  // The tape records nothing while a Pause exists. stop_recording() makes one.
  class Pause;
  Pause stop_recording();

  // Forgets what was recorded and watched, and starts to record again.
  void reset();

 private:
  internal::Owned<internal::Tape> tape_;
};

// WithGradient is what the function of custom_gradient() returns: its outputs, and a function that
// turns d(result)/d(outputs) into one gradient per input.
struct WithGradient {
  std::vector<Tensor> outputs;
  std::function<Gradients(std::span<const Tensor> output_gradients)> gradient;
};

// Runs `body(inputs)` unrecorded and returns its outputs. The function that `body` returns with the
// outputs computes their gradient.
std::vector<Tensor> custom_gradient(
    const std::function<WithGradient(std::span<const Tensor> inputs)>& body,
    const std::vector<Tensor>& inputs, Site site = Site::here());

}  // namespace cohort

#include "cohort/internal/tape_pause.h"  // IWYU pragma: export
