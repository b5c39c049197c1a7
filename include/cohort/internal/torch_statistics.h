#pragma once

// Keeps the buffers of a torch module's copies equal between runs. Users include cohort/torch.h
// instead.

#include <torch/torch.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "cohort/internal/torch_tensors.h"
#include "cohort/internal/torch_writes.h"
#include "cohort/internal/warn.h"

namespace cohort::internal {

// TorchStatistics makes the buffers equal after each run, in which each replica writes its own. All
// copies then have the mean of the written floating buffers, and the first replica's value of the
// other buffers, so that code outside `run` finds the same values on every worker without any
// communication. A running mean of means is the mean of the running means, so training continues as
// if each replica had kept its own.
class TorchStatistics {
 public:
  explicit TorchStatistics(SharedTensors& buffers) : buffers_(buffers) {}

  // Called before a run, and before code outside `run` uses the module. A write of such code to the
  // first copy would affect that worker alone. Therefore a norm's statistics, which a forward pass
  // in training mode writes, get their earlier values again, and a change of another buffer throws
  // FailedPrecondition.
  void settle(size_t copies) {
    const torch::NoGradGuard unrecorded;
    for (size_t copy = 0; copy < copies; ++copy) buffers_.follow(copy);
    agreed_.resize(buffers_.variables().size());
    for (size_t i = 0; i < agreed_.size(); ++i) {
      if (!agreed_[i].value.defined() || agreed_[i].times_given != buffers_.times_given(i)) {
        agree_on_given(i, copies);
      } else {
        undo_outside(i, copies);
      }
    }
  }

  // Called after a run, by all workers.
  void aggregate(Strategy& strategy, size_t copies) {
    if (agreed_.empty()) return;
    const torch::NoGradGuard unrecorded;
    const bool is_alone = strategy.num_replicas_in_sync() == static_cast<int>(copies);
    const auto [written, known] =
        is_alone ? Written{written_here(copies), {}} : written_anywhere(strategy, copies);
    if (written.empty()) return;
    const at::Tensor means = known.defined() ? known : mean(strategy, copies, written, {});
    for (size_t copy = 0; copy < copies; ++copy) unpack(means, copy, written);
    for (const size_t i : written) {
      agreed_[i].value.copy_(buffers_.of_copy(0)[i]);
      note(i, copies);
    }
    last_written_ = written;
  }

  // Called after a run that failed: the buffers get their values from before the run. Throws
  // nothing.
  void undo_run(size_t copies) {
    last_written_.clear();
    (void)capture_status([&] {
      const torch::NoGradGuard unrecorded;
      for (size_t i = 0; i < agreed_.size(); ++i) {
        for (size_t copy = 0; copy < copies; ++copy) undo(copy, i);
      }
    });
  }

 private:
  struct Agreed {
    uint64_t times_given = 0;
    at::Tensor value = {};
    std::vector<TensorMark> marks = {};  // by copy; only for a large buffer
  };
  struct Written {
    std::vector<size_t> buffers;
    at::Tensor means;  // their values, if already known
  };
  // Buffers up to this size are compared byte by byte. Of larger buffers, such as masks, a few
  // elements are compared. A norm changes all elements of its statistics.
  static constexpr size_t kSmallBytes = size_t{1} << 16;

  static bool is_large(const at::Tensor& buffer) { return buffer.nbytes() > kSmallBytes; }
  static bool is_of_norm(const std::string& name) {
    return name.ends_with("running_mean") || name.ends_with("running_var") ||
           name.ends_with("num_batches_tracked");
  }

  // Compares bytes, because torch's counter of writes does not count a batch norm's writes to its
  // statistics.
  static bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
    if (!a.is_cpu() || !b.is_cpu()) return same_bytes(a.cpu(), b.cpu());
    if (!a.is_contiguous() || !b.is_contiguous()) return at::equal(a, b);
    return a.nbytes() == 0 || std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
  }

  bool is_written(size_t copy, size_t buffer) {
    const at::Tensor& now = buffers_.of_copy(copy)[buffer];
    Agreed& agreed = agreed_[buffer];
    return is_large(now) ? agreed.marks[copy].is_written(now) : !same_bytes(now, agreed.value);
  }
  bool is_written_here(size_t buffer, size_t copies) {
    for (size_t copy = 0; copy < copies; ++copy) {
      if (is_written(copy, buffer)) return true;
    }
    return false;
  }
  // Records that all copies of the buffer have the agreed value.
  void note(size_t buffer, size_t copies) {
    agreed_[buffer].marks.resize(copies);
    for (size_t copy = 0; copy < copies; ++copy) {
      const at::Tensor& now = buffers_.of_copy(copy)[buffer];
      if (is_large(now)) agreed_[buffer].marks[copy].note(now);
    }
  }

  // Called after the variable was given a value, on all workers.
  void agree_on_given(size_t buffer, size_t copies) {
    agreed_[buffer].times_given = buffers_.times_given(buffer);
    agreed_[buffer].value = buffers_.of_copy(0)[buffer].clone();
    note(buffer, copies);
    last_written_.clear();  // a restarted worker knows none
  }

  void undo(size_t copy, size_t buffer) {
    if (!is_written(copy, buffer)) return;
    at::Tensor now = buffers_.of_copy(copy)[buffer];
    now.copy_(agreed_[buffer].value);
    if (is_large(now)) agreed_[buffer].marks[copy].note(now);
  }
  void undo_outside(size_t buffer, size_t copies) {
    if (!is_written_here(buffer, copies)) return;
    const std::string& name = buffers_.variables()[buffer].name();
    if (!is_of_norm(name)) throw_changed(name);
    for (size_t copy = 0; copy < copies; ++copy) undo(copy, buffer);
    if (!warned_) {
      warn("[TorchModule] buffer '" + name +
           "' was changed outside of run(), and has its earlier value again; call net->eval() "
           "before forward passes outside of run()");
    }
    warned_ = true;
  }
  [[noreturn]] static void throw_changed(const std::string& name) {
    throw Error(Code::FailedPrecondition,
                "[TorchModule] buffer '" + name +
                    "' was changed outside of run(), where no other replica or worker follows; "
                    "make the change in net.configure(f), or assign() to net.buffers(), and call "
                    "net->eval() before forward passes outside of run()");
  }

  std::vector<size_t> written_here(size_t copies) {
    std::vector<size_t> written;
    for (size_t i = 0; i < agreed_.size(); ++i) {
      if (is_written_here(i, copies)) written.push_back(i);
    }
    return written;
  }

  // Returns the buffers that a replica of any worker wrote. Workers can differ, for example if one
  // has no data, so they exchange what they wrote, together with the values of the buffers of the
  // last time, because these are usually the same buffers.
  Written written_anywhere(Strategy& strategy, size_t copies) {
    std::vector<double> flags(agreed_.size());
    for (const size_t i : written_here(copies)) flags[i] = 1;
    const at::Tensor all =
        mean(strategy, copies, last_written_, torch::tensor(flags, torch::kFloat64));
    std::vector<size_t> written;
    for (size_t i = 0; i < flags.size(); ++i) {
      if (all.data_ptr<double>()[i] > 0) written.push_back(i);
    }
    if (written != last_written_) return {written, {}};
    return {written, all.slice(0, static_cast<int64_t>(flags.size()))};
  }

  // Returns the mean over all replicas of `flags`, followed by the values of the buffers.
  at::Tensor mean(Strategy& strategy, size_t copies, const std::vector<size_t>& buffers,
                  const at::Tensor& flags) const {
    std::vector<std::optional<Tensor>> packs;
    for (size_t copy = 0; copy < copies; ++copy) {
      std::vector<at::Tensor> parts = values(strategy, copy, buffers);
      if (flags.defined()) parts.insert(parts.begin(), flags);
      packs.emplace_back(Tensor(torch::cat(parts)));
    }
    return strategy.reduce(ReduceOp::Mean, PerReplica<Tensor>(std::move(packs)));
  }

  // In double precision, in which the mean of equal numbers is exactly that number.
  std::vector<at::Tensor> values(const Strategy& strategy, size_t copy,
                                 const std::vector<size_t>& buffers) const {
    const int id = strategy.extended().replica_id(copy);
    const double share = id == 0 ? strategy.num_replicas_in_sync() : 0;
    std::vector<at::Tensor> parts;
    for (const size_t i : buffers) {
      const at::Tensor value = buffers_.of_copy(copy)[i];
      const at::Tensor part = value.reshape({-1}).to(torch::kFloat64);
      parts.push_back(value.is_floating_point() ? part : part * share);
    }
    return parts;
  }

  void unpack(const at::Tensor& means, size_t copy, const std::vector<size_t>& written) {
    int64_t at = 0;
    for (const size_t i : written) {
      at::Tensor value = buffers_.of_copy(copy)[i];
      value.copy_(means.slice(0, at, at + value.numel()).reshape(value.sizes()));
      at += value.numel();
    }
  }

  SharedTensors& buffers_;
  std::vector<Agreed> agreed_;        // by buffer
  std::vector<size_t> last_written_;  // by the last run that wrote; equal on all workers
  bool warned_ = false;
};

}  // namespace cohort::internal
