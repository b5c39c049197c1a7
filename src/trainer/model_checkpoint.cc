#include "base/raise.h"
#include "cohort/callbacks.h"
#include "trainer/saved_numbers.h"

namespace cohort {

ModelCheckpoint::ModelCheckpoint(const ModelCheckpointOptions& options)
    : options_(options), monitor_("ModelCheckpoint", options.monitor, options.mode, 0) {
  if (!options.folder.empty()) return;
  internal::raise(Code::InvalidArgument, "[ModelCheckpoint] .folder must be given");
}

void ModelCheckpoint::on_epoch_end(Trainer& trainer, const Logs& logs) {
  const bool best = options_.keep_best && monitor_.improved(logs);
  Checkpoint checkpoint = trainer.checkpoint();
  if (options_.keep_last) checkpoint.write(options_.folder + "/last");
  if (best) checkpoint.write(options_.folder + "/best");
}

std::string ModelCheckpoint::save() const { return internal::save_numbers({monitor_.best()}); }

void ModelCheckpoint::restore(const std::string& saved) {
  monitor_.set_best(internal::restore_numbers("ModelCheckpoint", saved, 1)[0]);
}

}  // namespace cohort
