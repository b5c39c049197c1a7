#pragma once

// What the two kinds of cache, in memory and in a file, share.

#include <mutex>

#include "data/stage.h"

namespace cohort::data::internal {

// What a complete pass left in memory.
struct StoredPass {
  std::vector<Element> elements;
  std::string start;  // the input's position before the pass: what makes it again
};

class CacheNode : public PassThroughNode<CacheNode> {
 public:
  CacheNode() = default;
  // A copy may get another input, so it starts empty.
  CacheNode(const CacheNode& other) : PassThroughNode(other), file(other.file) {}

  std::string_view kind() const override { return "Cache"; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override { return input().cardinality(); }
  void fields(Fields& fields) override { fields.field("file", file); }

  std::shared_ptr<const StoredPass> stored() const {
    const std::lock_guard lock(mutex_);
    return stored_;
  }
  void publish(std::shared_ptr<const StoredPass> complete) const {
    const std::lock_guard lock(mutex_);
    if (!stored_) stored_ = std::move(complete);
  }

  // Where the stored pass began; empty when none is stored.
  std::string stored_start() const;

  std::string file;  // empty: memory

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const StoredPass> stored_;
};

// What both kinds of cache share: a position is a number of elements, and of failures, where the
// input began, and whether the walk has settled on this pass. A pass that is not complete is made
// again when it is restored, and so is one that is not the stored one: that of an iterator, or of
// another walk of the same one, which came first.
class CacheCursor : public Cursor {
 public:
  CacheCursor(const CacheNode& node, const Context& context) : node_(node), context_(context) {}

  void save(StateWriter& state) override {
    state.stage("Cache");
    state.integer(at_);
    state.integer(failures_);
    state.text(start_);
    state.flag(!context_.iteration->cached_pass(context_.walk(node_)).value_or("").empty());
  }
  void restore(StateReader& state) override {
    state.stage("Cache");
    const int64_t count = state.integer(0, INT64_MAX);
    const int64_t failures = state.integer(0, INT64_MAX);
    const std::string start = state.text();
    const bool settled = state.flag();
    if (start != start_) begin_pass_at(start);
    remember(settled ? start : "");
    pass_over(count, failures);
  }

  bool next(Element& out) final {
    check_running(context_);
    const bool found = input_ ? next_made(out) : next_stored(out);
    at_ += found ? 1 : 0;
    if (!found) remember(start_);
    return found;
  }

 protected:
  // Called by the constructors of derived classes once start_ says where the stored pass began, if
  // there is one. A walk that had to make its first pass goes on making passes until one comes to
  // its end, and then hands on that one: what others store meanwhile changes nothing, nor do
  // elements that failed, which other workers may have had.
  void open() {
    const std::optional<std::string> own = context_.iteration->cached_pass(context_.walk(node_));
    if (own ? own->empty() : start_.empty()) begin_pass();
    if (own && !own->empty() && *own != start_) begin_pass_at(*own);
    remember(input_ ? own.value_or("") : start_);
  }
  void remember(const std::string& start) {
    context_.iteration->set_cached_pass(context_.walk(node_), start);
  }

  virtual bool next_stored(Element& out) = 0;
  // An element of input_, and the end of a pass without failures.
  virtual void keep(const Element& element) = 0;
  virtual void complete() = 0;
  // From now on elements come from the input.
  virtual void begin_pass() {
    input_ = node_.input().open(context_);
    StateWriter position;
    input_->save(position);
    start_ = position.bytes();
  }
  void begin_pass_at(const std::string& start) {
    if (!input_) begin_pass();
    StateReader begin(start);
    input_->restore(begin);
    start_ = start;
  }

  const CacheNode& node_;
  const Context context_;
  CursorPtr input_;       // null when the elements are stored
  std::string start_;     // the input's position before its first element; empty before open()
  int64_t at_ = 0;        // elements handed on
  int64_t failures_ = 0;  // elements of the input that failed instead
  bool ended_ = false;

 private:
  bool next_made(Element& out) {
    if (ended_) return false;
    const Status failure = capture_status([&] { ended_ = !input_->next(out); });
    if (!failure.ok()) ++failures_;
    throw_if_error(failure);
    if (!ended_) keep(out);
    if (ended_ && failures_ == 0) complete();
    return !ended_;
  }

  void pass_over(int64_t count, int64_t failures) {
    Element skipped;
    while (at_ < count || failures_ < failures) {
      const int64_t before = failures_;
      bool found = false;
      const Status failure = capture_status([&] { found = next(skipped); });
      if (failures_ == before) throw_if_error(failure);
      if (failure.ok() && !found) raise_bad_state("the cached dataset has fewer elements");
    }
  }
};

// For a node with a file.
std::string start_in_file(const std::string& file);
CursorPtr open_file_cache(const CacheNode& node, const Context& context);

}  // namespace cohort::data::internal
