#pragma once

#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace cohort::internal {

// A map that knows the order in which its entries were last used. Not thread-safe. Functions that
// remove entries return them, so that the caller can destroy them outside its locks.
template <typename Key, typename Value>
class LruCache {
 public:
  struct Entry {
    Key key;
    Value value;
  };

  // Marks the entry as just used. Null when the map has no such key.
  Value* find(const Key& key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return &found->second->value;
  }

  // Marks the entry as just used. Returns the value that it replaces.
  std::optional<Value> put(const Key& key, Value value) {
    if (Value* const known = find(key)) return std::exchange(*known, std::move(value));
    entries_.push_front({key, std::move(value)});
    places_[key] = entries_.begin();
    return std::nullopt;
  }

  // The map must not be empty.
  Entry& oldest() { return entries_.back(); }
  std::optional<Value> drop_oldest() {
    if (entries_.empty()) return std::nullopt;
    return take(std::prev(entries_.end()));
  }

  template <typename Condition>
  std::vector<Value> drop_if(const Condition& is_dropped) {
    std::vector<Value> dropped;
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      const auto here = entry++;
      if (is_dropped(here->value)) dropped.push_back(take(here));
    }
    return dropped;
  }

  size_t size() const { return entries_.size(); }
  // The entry that was used last comes first.
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  using Entries = std::list<Entry>;

  Value take(typename Entries::iterator entry) {
    Value value = std::move(entry->value);
    places_.erase(entry->key);
    entries_.erase(entry);
    return value;
  }

  Entries entries_;
  std::map<Key, typename Entries::iterator> places_;
};

}  // namespace cohort::internal
