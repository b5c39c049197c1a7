#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "graph/effect_order.h"

namespace cohort::internal {

// Settings that a trace used, such as a learning rate, and which version of each it saw; and the
// orders in which its calls take turns.
class UsedSettings {
 public:
  using Version = std::shared_ptr<const std::atomic<uint64_t>>;
  void add(Version version);
  void add(std::shared_ptr<EffectOrder> order);
  void add(const UsedSettings& others);
  // False once one of the settings has changed: the trace has an old value inside.
  bool are_current() const;
  const EffectOrders& orders() const { return orders_; }

 private:
  struct Use {
    Version version;
    uint64_t seen;
  };
  std::vector<Use> uses_;
  EffectOrders orders_;
};

// A setting of an object that code under a trace turns into a constant. Whoever reads the setting
// calls use(), and whoever changes it changed(): then the functions that used it are traced anew.
class TracedSetting {
 public:
  void use() const;
  void changed() { version_->fetch_add(1); }
  // How often it has changed.
  uint64_t version() const { return version_->load(); }

 private:
  std::shared_ptr<std::atomic<uint64_t>> version_ = std::make_shared<std::atomic<uint64_t>>(0);
};

// While it lives, notes the settings that this thread uses.
class [[nodiscard]] SettingsScope {
 public:
  SettingsScope();
  ~SettingsScope();
  SettingsScope(const SettingsScope&) = delete;
  SettingsScope& operator=(const SettingsScope&) = delete;

  const UsedSettings& used() const { return used_; }
  // This thread calls a trace that used these settings: what is being traced around the call has
  // them inside, too.
  static void note(const UsedSettings& settings);
  // What this thread traces writes in that order, if it traces anything.
  static void note(const std::shared_ptr<EffectOrder>& order);

 private:
  friend class TracedSetting;
  static UsedSettings*& innermost();

  UsedSettings used_;
  UsedSettings* const outer_;
};

}  // namespace cohort::internal
