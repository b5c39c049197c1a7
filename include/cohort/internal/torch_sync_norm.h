#pragma once

// Torch's batch norms over the batches of all replicas. Users include cohort/torch.h instead.

#include <torch/library.h>
#include <torch/torch.h>

#include <mutex>
#include <unordered_set>
#include <vector>

#include "cohort/strategy.h"

namespace cohort::internal {

// SyncBatchNorm normalizes with the mean and variance of the examples of all replicas. All replicas
// must call it with the same number of channels, and run their backward passes through it in the
// same order.
class SyncBatchNorm : public torch::autograd::Function<SyncBatchNorm> {
 public:
  struct Running {
    at::Tensor mean;  // undefined if the layer keeps none
    at::Tensor var;
    double momentum;
  };

  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const c10::optional<at::Tensor>& given_weight,
                            const c10::optional<at::Tensor>& given_bias, const Running& running,
                            double eps) {
    const at::Tensor weight = given_weight.value_or(at::Tensor());
    const at::Tensor bias = given_bias.value_or(at::Tensor());
    const at::Tensor wide =
        x.to(torch::kFloat64);  // squares of small numbers add up exactly enough
    const double own = static_cast<double>(x.numel()) / static_cast<double>(x.size(1));
    const at::Tensor totals = add_up({channel_sums(wide), channel_sums(wide.square())}, own);
    const double count = totals[-1].item<double>();
    const at::Tensor mean = totals.slice(0, 0, x.size(1)) / count;
    const at::Tensor var =
        (totals.slice(0, x.size(1), 2 * x.size(1)) / count - mean.square()).clamp_min(0);
    note(running, mean, var * (count / std::max(count - 1, 1.0)));
    const at::Tensor scale = (var + eps).rsqrt();
    context->save_for_backward({x, weight, mean, scale});
    context->saved_data["count"] = count;
    at::Tensor y = (wide - along(mean, x)) * along(scale, x);
    if (weight.defined()) y = y * along(weight, x);
    if (bias.defined()) y = y + along(bias, x);
    return y.to(x.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& outer) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &mean = saved[2], &scale = saved[3];
    const double count = context->saved_data["count"].toDouble();
    const at::Tensor dy = outer[0].to(torch::kFloat64);
    const at::Tensor normal = (x.to(torch::kFloat64) - along(mean, x)) * along(scale, x);
    const at::Tensor of_bias = channel_sums(dy);
    const at::Tensor of_weight = channel_sums(dy * normal);
    const at::Tensor totals = add_up({of_bias, of_weight}, 0) / count;
    const at::Tensor mean_dy = along(totals.slice(0, 0, x.size(1)), x);
    const at::Tensor mean_dot = along(totals.slice(0, x.size(1), 2 * x.size(1)), x);
    at::Tensor dx = (dy - mean_dy - normal * mean_dot) * along(scale, x);
    if (weight.defined()) dx = dx * along(weight, x);
    const auto like = [](const at::Tensor& gradient, const at::Tensor& parameter) {
      return parameter.defined() ? gradient.to(parameter.scalar_type()) : at::Tensor();
    };
    // The gradients of weight and bias are this replica's own, because the optimizer sums them.
    return {dx.to(x.scalar_type()), like(of_weight, weight), like(of_bias, weight), {}, {}};
  }

 private:
  static at::Tensor channel_sums(const at::Tensor& x) {
    return x.transpose(0, 1).reshape({x.size(1), -1}).sum(1);
  }
  // Shapes one number per channel so that it can be combined with x.
  static at::Tensor along(const at::Tensor& channels, const at::Tensor& x) {
    std::vector<int64_t> sizes(static_cast<size_t>(x.dim()), 1);
    sizes[1] = -1;
    return channels.to(torch::kFloat64).reshape(sizes);
  }
  // Returns the sums over all replicas: first the parts, one after the other, then the number.
  static at::Tensor add_up(std::vector<at::Tensor> parts, double number) {
    parts.push_back(torch::full({1}, number, torch::kFloat64));
    const Tensor own(torch::cat(parts));
    return get_replica_context()->all_reduce(ReduceOp::Sum, own);
  }
  static void note(const Running& running, const at::Tensor& mean, const at::Tensor& var) {
    if (!running.mean.defined()) return;
    at::Tensor(running.mean).mul_(1 - running.momentum).add_(mean * running.momentum);
    at::Tensor(running.var).mul_(1 - running.momentum).add_(var * running.momentum);
  }
};

// SyncedLayers knows the layers that normalize over all replicas. It identifies a layer by one of
// its tensors. Thread-safe.
class SyncedLayers {
 public:
  static SyncedLayers& all() {
    static auto* const made = new SyncedLayers;
    return *made;
  }
  void add(const at::Tensor& mark) {
    const std::lock_guard lock(mutex_);
    marks_.insert(mark.unsafeGetTensorImpl());
  }
  void remove(const at::Tensor& mark) {
    const std::lock_guard lock(mutex_);
    marks_.erase(mark.unsafeGetTensorImpl());
  }
  bool has(const c10::optional<at::Tensor>& mark) {
    if (!mark || !mark->defined()) return false;
    const std::lock_guard lock(mutex_);
    return marks_.count(mark->unsafeGetTensorImpl()) != 0;
  }

 private:
  // Replicas of several workers call batch_norm under this key: see TorchRandomScope.
  static constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

  SyncedLayers() : library_(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__) {
    // Not TORCH_FN: g++ 12 does not compile that under UndefinedBehaviorSanitizer.
    library_.impl("batch_norm", &batch_norm);
  }

  static at::Tensor batch_norm(const at::Tensor& x, const c10::optional<at::Tensor>& weight,
                               const c10::optional<at::Tensor>& bias,
                               const c10::optional<at::Tensor>& running_mean,
                               const c10::optional<at::Tensor>& running_var, bool training,
                               double momentum, double eps, bool cudnn) {
    const bool synced = training && (all().has(running_mean) || all().has(weight));
    if (synced && get_replica_context() != nullptr) {
      const auto value = [](const c10::optional<at::Tensor>& given) {
        return given.value_or(at::Tensor());
      };
      return SyncBatchNorm::apply(
          x, weight, bias,
          SyncBatchNorm::Running{value(running_mean), value(running_var), momentum}, eps);
    }
    const c10::impl::ExcludeDispatchKeyGuard as_usual(kKey);
    return at::batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps,
                          cudnn);
  }

  std::mutex mutex_;
  std::unordered_set<const c10::TensorImpl*> marks_;  // guarded by mutex_
  torch::Library library_;
};

// While it lives, the batch norms of a module normalize over all replicas. Throws InvalidArgument
// if the module has no batch norm, or one that has neither statistics nor weights.
class [[nodiscard]] SyncedNorms {
 public:
  explicit SyncedNorms(const torch::nn::Module& module) {
    for (const auto& part : module.modules()) {
      add_if<torch::nn::BatchNorm1dImpl>(*part);
      add_if<torch::nn::BatchNorm2dImpl>(*part);
      add_if<torch::nn::BatchNorm3dImpl>(*part);
    }
    if (marks_.empty()) {
      throw Error(Code::InvalidArgument,
                  "[TorchModule] sync_batch_norm needs a torch::nn::BatchNorm1d, 2d or 3d, and the "
                  "module has none");
    }
  }
  ~SyncedNorms() {
    for (const at::Tensor& mark : marks_) SyncedLayers::all().remove(mark);
  }
  SyncedNorms(const SyncedNorms&) = delete;
  SyncedNorms& operator=(const SyncedNorms&) = delete;

 private:
  template <typename Norm>
  void add_if(const torch::nn::Module& part) {
    const auto* norm = dynamic_cast<const Norm*>(&part);
    if (norm == nullptr) return;
    const at::Tensor& mark = norm->running_mean.defined() ? norm->running_mean : norm->weight;
    if (!mark.defined()) {
      throw Error(
          Code::InvalidArgument,
          "[TorchModule] sync_batch_norm needs batch norms with statistics or weights, and '" +
              part.name() + "' has neither: turn affine or track_running_stats on");
    }
    SyncedLayers::all().add(mark);
    marks_.push_back(mark);
  }

  std::vector<at::Tensor> marks_;  // kept alive, so that their addresses stay taken
};

}  // namespace cohort::internal
