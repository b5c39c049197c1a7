// A training that is interrupted and goes on as if nothing had happened: model, optimizer, position
// in the data and running figures come back from the last good checkpoint.

#include <cohort/cohort.h>

#include <filesystem>
#include <iostream>
using namespace cohort;

namespace {

// Everything that a run consists of.
struct Training {
  explicit Training(const std::string& directory)
      : checkpoint({{"model", model},
                    {"optimizer", optimizer},
                    {"loss", mean_loss},
                    {"input", Trackable::position(dataset, input)}}),
        manager(checkpoint, directory, {.max_to_keep = 3}) {
    model.kernel().assign(Tensor({{0.f}, {0.f}}));
    const auto latest = manager.restore_latest();
    std::cout << (latest ? "goes on from " + std::filesystem::path(*latest).filename().string()
                         : "starts anew")
              << '\n';
  }

  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      const data::Element batch = input.next();
      const Tensor x = batch[0];
      const Tensor y = batch[1];
      mean_loss.update(
          optimizer.minimize([&] { return mean(square(model(x) - y)); }, model.variables()));
      if (step() % 10 == 0) manager.save(step());
    }
    std::cout << "step " << step() << ", mean loss " << mean_loss.result().to<float>() << '\n';
  }

  int64_t step() const { return optimizer.iterations().read_value().to<int64_t>(); }

  data::Dataset dataset =
      data::from_tensor_slices(Tensor({{1.f, 0.f}, {0.f, 1.f}, {1.f, 1.f}, {2.f, 1.f}}),
                               Tensor({{2.f}, {-1.f}, {1.f}, {3.f}}))
          .shuffle(4, {.seed = 1})
          .repeat()
          .batch(2);
  data::Iterator input = dataset.iterator();
  nn::Dense model{2, 1};
  optim::Adam optimizer{{.learning_rate = 0.05}};
  metrics::Mean mean_loss{"loss"};
  Checkpoint checkpoint;
  CheckpointManager manager;
};

}  // namespace

int main() {
  const auto directory = std::filesystem::temp_directory_path() / "cohort_checkpoints_example";
  std::filesystem::remove_all(directory);
  Training(directory / "whole").steps(60);        // never interrupted
  Training(directory / "interrupted").steps(34);  // its last checkpoint is that of step 30
  Training again(directory / "interrupted");
  again.steps(30);
  std::cout << again.manager.checkpoints().size() << " checkpoints are kept\n";
  std::filesystem::remove_all(directory);
}
