#include "data/iterator.h"

#include <mutex>

#include "data/crc32c.h"

namespace cohort::data {
namespace internal {
namespace {

constexpr std::string_view kMagic = "cohort position 1\n";

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
    StateWriter body;
    cursor_->save(body);
    StateWriter whole;
    whole.integer(crc32c(body.bytes()));
    return std::string(kMagic) + whole.bytes() + body.bytes();
  }

 private:
  void restore(std::string_view position) {
    if (position.substr(0, kMagic.size()) != kMagic) {
      raise_bad_state("these are not the bytes that Iterator::save() gave");
    }
    position.remove_prefix(kMagic.size());
    StateReader head(position);
    const int64_t crc = head.integer();
    const std::string_view body = position.substr(position.size() - head.left());
    if (crc != static_cast<int64_t>(crc32c(body))) raise_bad_state("the bytes are damaged");
    StateReader state(body);
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
