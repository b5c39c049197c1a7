#include "graph/tracing.h"

#include <algorithm>
#include <utility>

namespace cohort::internal {

void UsedSettings::add(Version version) {
  const uint64_t seen = version->load();
  uses_.push_back({std::move(version), seen});
}

void UsedSettings::add(const UsedSettings& others) {
  uses_.insert(uses_.end(), others.uses_.begin(), others.uses_.end());
  for (const auto& order : others.orders_) add(order);
}

// By address: two calls that enter the same orders enter them in the same sequence, so that neither
// waits for the other with what the other waits for.
void UsedSettings::add(std::shared_ptr<EffectOrder> order) {
  const auto place = std::ranges::lower_bound(orders_, order);
  if (place == orders_.end() || *place != order) orders_.insert(place, std::move(order));
}

bool UsedSettings::are_current() const {
  return std::ranges::all_of(uses_, [](const Use& use) { return use.version->load() == use.seen; });
}

namespace {

constinit ContextSlot<SettingsScope*> innermost_settings;

}  // namespace

SettingsScope::SettingsScope() : innermost_(innermost_settings, this) {}

template <typename Use>
void SettingsScope::note_innermost(const Use& use) {
  SettingsScope* const innermost = innermost_settings.get();
  if (innermost == nullptr) return;
  const std::lock_guard lock(innermost->mutex_);
  innermost->used_.add(use);
}

void TracedSetting::use() const { SettingsScope::note_innermost(version_); }
void SettingsScope::note(const UsedSettings& settings) { note_innermost(settings); }
void SettingsScope::note(const std::shared_ptr<EffectOrder>& order) { note_innermost(order); }

TraceContext& trace_context() {
  static constinit ContextSlot<TraceContext> slot;
  return slot.get();
}

}  // namespace cohort::internal
