#include <cohort/cohort.h>

using namespace cohort;

void misuse(Strategy& strategy, const Variable& variable) {
  strategy.extended().update_non_slot(
      Destinations(variable), [](const std::string& text) { return text.size(); }, Tensor(1.f));
}
