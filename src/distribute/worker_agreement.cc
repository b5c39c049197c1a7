#include "cohort/internal/worker_agreement.h"

#include "base/purpose.h"
#include "base/worker_texts.h"
#include "distribute/multi_worker_extended.h"

namespace cohort::internal {
namespace {

bool is_by_itself(const StrategyExtended& extended) {
  const auto* workers = dynamic_cast<const MultiWorkerExtended*>(&extended);
  return workers != nullptr && !workers->meets_others();
}

}  // namespace

void on_each_worker(StrategyExtended& extended, const std::string& what,
                    const std::function<void()>& part) {
  if (is_by_itself(extended)) return part();
  const std::exception_ptr thrown = capture_exception(part);
  throw_first_failure(what, thrown, extended.gather_from_workers(outcome_text(thrown), what));
}

Tensor value_of_first_worker(StrategyExtended& extended, const std::string& what,
                             const Tensor& value) {
  if (is_by_itself(extended)) return value;
  const CollectivePurpose purpose(what);
  return extended.from_first_worker(value);
}

}  // namespace cohort::internal
