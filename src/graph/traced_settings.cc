#include "graph/traced_settings.h"

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

void TracedSetting::use() const {
  if (UsedSettings* const noting = SettingsScope::innermost()) noting->add(version_);
}

UsedSettings*& SettingsScope::innermost() {
  thread_local UsedSettings* settings = nullptr;
  return settings;
}

SettingsScope::SettingsScope() : outer_(std::exchange(innermost(), &used_)) {}

SettingsScope::~SettingsScope() { innermost() = outer_; }

void SettingsScope::note(const UsedSettings& settings) {
  if (UsedSettings* const noting = innermost()) noting->add(settings);
}

void SettingsScope::note(const std::shared_ptr<EffectOrder>& order) {
  if (UsedSettings* const noting = innermost()) noting->add(order);
}

}  // namespace cohort::internal
