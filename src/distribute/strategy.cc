#include "cohort/strategy.h"

#include <fmt/format.h>

#include <atomic>
#include <ostream>

#include "base/raise.h"
#include "distribute/context.h"
#include "distribute/default_strategy.h"
#include "distribute/replica_threads.h"
#include "distribute/strategy_update.h"

namespace cohort {
namespace internal {
namespace {

uint64_t next_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace
}  // namespace internal

Strategy::Strategy(std::unique_ptr<StrategyExtended> extended)
    : id_(internal::next_id()), extended_(std::move(extended)) {
  if (extended_ == nullptr) {
    internal::raise(Code::InvalidArgument, "[Strategy] needs a StrategyExtended, got nullptr");
  }
  extended_->strategy_ = this;
  internal::connect_optimizers();
}

Strategy::~Strategy() { internal::end_installed_scope(*this); }

std::unique_ptr<Strategy> Strategy::deep_copy() const {
  if (this == &internal::default_strategy()) {
    internal::raise(Code::FailedPrecondition,
                    "[Strategy] there is one default strategy; it cannot be copied");
  }
  return std::make_unique<Strategy>(extended_->clone());
}

void Strategy::run_replicas(const std::function<void(ReplicaContext&)>& body) {
  const StrategyScope inside(*this);
  extended_->call_for_each_replica(body);
}

void Strategy::check_cross_replica(std::string_view what) const {
  internal::require_cross_replica_or_default(*this, what);
}

std::string Strategy::to_string() const {
  if (this == &internal::default_strategy()) return "DefaultStrategy()";
  std::string devices;
  for (const std::string& device : extended_->worker_devices()) {
    devices += fmt::format("{}'{}'", devices.empty() ? "" : ", ", device);
  }
  return fmt::format("{}(devices=[{}], num_replicas_in_sync={})", extended_->name(), devices,
                     num_replicas_in_sync());
}

std::ostream& operator<<(std::ostream& out, const Strategy& strategy) {
  return out << strategy.to_string();
}

}  // namespace cohort
