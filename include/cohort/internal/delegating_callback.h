#pragma once

#include "cohort/internal/owned.h"
#include "cohort/trainer.h"

// Not for inclusion by users: include cohort/callbacks.h.

namespace cohort::internal {

// DelegatingCallback passes each call on to the callback that it is made of. The callbacks of the
// library derive from it, so that their state and code are in a .cc file.
class DelegatingCallback : public Callback {
 public:
  void on_fit_begin(Trainer& trainer) override;
  void on_epoch_begin(Trainer& trainer) override;
  void on_step_end(Trainer& trainer, const Logs& so_far) override;
  void on_epoch_end(Trainer& trainer, const Logs& logs) override;
  void on_fit_end(Trainer& trainer) override;
  std::string save() const override;
  void restore(const std::string& saved) override;

 protected:
  explicit DelegatingCallback(std::unique_ptr<Callback> callback);

 private:
  const Owned<Callback> callback_;
};

}  // namespace cohort::internal
