#include "data/iterator.h"

#include <mutex>

namespace cohort::data {
namespace internal {
namespace {

class LocalIterator : public IteratorBase {
 public:
  LocalIterator(NodePtr node, const std::string* position) : node_(std::move(node)) {
    cursor_ = node_->open({.stop = stop_.get_token(),
                           .iteration = std::make_shared<Iteration>(),
                           .options = node_->options()});
    if (position != nullptr) restore(*position);
  }
  ~LocalIterator() override {
    stop_.request_stop();
    cursor_.reset();
  }

  std::optional<Element> next() override {
    const std::lock_guard lock(mutex_);
    Element element;
    if (!cursor_->next(element)) return std::nullopt;
    return element;
  }

  std::string save() override {
    const std::lock_guard lock(mutex_);
    StateWriter position;
    cursor_->save(position);
    return sealed(position);
  }

 private:
  void restore(const std::string& position) {
    StateReader state(unsealed(position));
    cursor_->restore(state);
    if (!state.at_end()) raise_bad_state("it has more stages");
  }

  std::stop_source stop_;
  NodePtr node_;
  std::mutex mutex_;
  CursorPtr cursor_;
};

}  // namespace
}  // namespace internal

Element Iterator::next() {
  std::optional<Element> element = base_->next();
  if (!element) internal::raise(Code::OutOfRange, "[Iterator] the dataset has no more elements");
  return *std::move(element);
}

std::optional<Element> Iterator::next_optional() { return base_->next(); }

std::string Iterator::save() { return base_->save(); }

Iterator Dataset::iterate() const {
  return Iterator(std::make_shared<internal::LocalIterator>(node_, nullptr));
}

Iterator Dataset::iterate(const std::string& position) const {
  return Iterator(std::make_shared<internal::LocalIterator>(node_, &position));
}

}  // namespace cohort::data
