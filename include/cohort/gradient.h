#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cohort/tensor.h"

namespace cohort {

class Variable;

namespace internal {
class Tape;
}

// Some rows of a tensor, the rest being zero: the gradient of a look-up in a large table, which
// names the rows that were read instead of spelling out the table. A row may come several times;
// its values then add up.
struct IndexedSlices {
  Tensor values;      // shape (n, ...)
  Tensor indices;     // shape (n,), int64
  Shape dense_shape;  // of the whole tensor

  Tensor to_dense() const;
};

// What a gradient is: nothing (the source has no influence on the target), a tensor, or rows of
// one. Converts to a Tensor; rows are then written out.
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
  Tensor dense() const;
  operator Tensor() const { return dense(); }

 private:
  Tensor dense_;
  std::shared_ptr<const IndexedSlices> slices_;
};
using Gradients = std::vector<Gradient>;
std::ostream& operator<<(std::ostream& out, const Gradient& gradient);

// What tape.gradient gives for a source that the target does not depend on.
enum class Unconnected { None, Zero };

struct GradientOptions {
  // d(result)/d(target), one per target; ones when empty.
  std::vector<Tensor> output_gradients = {};
  Unconnected unconnected = Unconnected::None;
};

struct TapeOptions {
  bool persistent = false;      // allows several gradient() calls; keeps everything until the end
  bool watch_variables = true;  // trainable variables are watched when read
};

// Records what this thread computes from watched values while it lives, and gives derivatives.
//
// Belongs to the thread that made it; other threads' operations are not recorded. Tapes nest: the
// outer one also records the inner one's gradient computation, which gives second derivatives.
// gradient() ends the recording of a tape that is not persistent and frees what it held.
class GradientTape {
 public:
  explicit GradientTape(TapeOptions options = {});
  ~GradientTape();
  GradientTape(const GradientTape&) = delete;
  GradientTape& operator=(const GradientTape&) = delete;

  // From here on, what is computed from `tensor` is recorded. Floating dtypes only
  // (InvalidArgument).
  void watch(const Tensor& tensor);
  void watch(const Variable& variable);

  // d(target)/d(source), summed over the elements of the target. A source that was never watched
  // counts as unconnected. Throws FailedPrecondition on a second call unless persistent, and
  // Unimplemented, naming the op, when the way leads through an op without gradient.
  Gradient gradient(const Tensor& target, const Tensor& source,
                    const GradientOptions& options = {});
  Gradient gradient(const Tensor& target, const Variable& source,
                    const GradientOptions& options = {});
  Gradients gradient(const Tensor& target, const std::vector<Tensor>& sources,
                     const GradientOptions& options = {});
  Gradients gradient(const Tensor& target, const std::vector<Variable>& sources,
                     const GradientOptions& options = {});
  // The same for lists in braces: tape.gradient(loss, {w, b}).
  Gradients gradient(const Tensor& target, std::initializer_list<Tensor> sources,
                     const GradientOptions& options = {});
  Gradients gradient(const Tensor& target, std::initializer_list<Variable> sources,
                     const GradientOptions& options = {});
  // The sum over several targets.
  Gradients gradient(const std::vector<Tensor>& targets, const std::vector<Tensor>& sources,
                     const GradientOptions& options = {});
  Gradients gradient(const std::vector<Tensor>& targets, const std::vector<Variable>& sources,
                     const GradientOptions& options = {});

  // While the returned object lives, this tape records nothing.
  class [[nodiscard]] Pause {
   public:
    explicit Pause(internal::Tape& tape);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    internal::Tape& tape_;
  };
  Pause stop_recording();

  // Forgets what was recorded and watched, and records anew.
  void reset();

 private:
  std::unique_ptr<internal::Tape> tape_;
};

// What custom_gradient's function returns: its outputs, and how to turn d/d(outputs) into one
// gradient per input.
struct WithGradient {
  std::vector<Tensor> outputs;
  std::function<Gradients(std::span<const Tensor> output_gradients)> gradient;
};

// Runs `body(inputs)` unrecorded and gives its outputs the gradient that it returns with them.
std::vector<Tensor> custom_gradient(
    const std::function<WithGradient(std::span<const Tensor> inputs)>& body,
    const std::vector<Tensor>& inputs);

}  // namespace cohort
