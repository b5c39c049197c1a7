#include "distribute/run_observers.h"

#include <atomic>
#include <map>
#include <mutex>

namespace cohort::internal {
namespace {

using List = std::vector<std::weak_ptr<RunObserver>>;

// By the strategy's id. Strategies do not hold the lists themselves: their header would have to say
// so, and few programs have observers.
struct Registry {
  std::mutex mutex;
  std::map<uint64_t, List> lists;       // guarded by mutex
  std::atomic<bool> ever_used = false;  // spares runs without observers the lock
};

Registry& registry() {
  static Registry all;
  return all;
}

void forget_dead(std::map<uint64_t, List>& lists) {
  for (auto& [id, list] : lists) {
    std::erase_if(list, [](const auto& observer) { return observer.expired(); });
  }
  std::erase_if(lists, [](const auto& entry) { return entry.second.empty(); });
}

// Those of the strategy that live.
std::vector<std::shared_ptr<RunObserver>> observers_of(const Strategy& strategy) {
  std::vector<std::shared_ptr<RunObserver>> living;
  if (!registry().ever_used.load(std::memory_order_acquire)) return living;
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().lists.find(strategy.id());
  if (found == registry().lists.end()) return living;
  for (const std::weak_ptr<RunObserver>& observer : found->second) {
    if (auto held = observer.lock()) living.push_back(std::move(held));
  }
  return living;
}

}  // namespace

void observe_runs(const Strategy& strategy, const std::shared_ptr<RunObserver>& observer) {
  const std::lock_guard lock(registry().mutex);
  forget_dead(registry().lists);
  registry().lists[strategy.id()].push_back(observer);
  registry().ever_used.store(true, std::memory_order_release);
}

ObservedRun::ObservedRun(const Strategy& strategy) {
  const auto observers = observers_of(strategy);
  try {
    for (const auto& observer : observers) {
      observer->before_run();
      begun_.push_back(observer);
    }
  } catch (...) {
    for (const auto& observer : begun_) observer->after_run(/*failed=*/true);
    throw;
  }
}

ObservedRun::~ObservedRun() {
  for (const auto& observer : begun_) observer->after_run(/*failed=*/true);
}

void ObservedRun::end() {
  // Those that have ended are not told again when one of them throws.
  while (!begun_.empty()) {
    const auto observer = std::move(begun_.front());
    begun_.erase(begun_.begin());
    observer->after_run(/*failed=*/false);
  }
}

}  // namespace cohort::internal
