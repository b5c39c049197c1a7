#pragma once

#include <mutex>

#include "data/stage.h"

namespace cohort::data::internal {

// The elements of a complete pass in memory.
struct StoredPass {
  std::vector<Element> elements;
  std::string start;  // the input's position before the pass
};

// The first pass in which no element fails stores the elements in memory or in a file. Later passes
// read the stored elements.
class CacheNode : public NodeOf<CacheNode, PassThroughNode> {
 public:
  CacheNode() = default;
  // A copy may get another input, so it starts empty.
  CacheNode(const CacheNode& other) : NodeOf(other), file(other.file) {}

  std::string_view kind() const override { return "Cache"; }
  CursorPtr open(const Context& context) const override;
  void fields(Fields& fields) override { fields.field("file", file); }

  std::shared_ptr<const StoredPass> stored() const {
    const std::lock_guard lock(mutex_);
    return stored_;
  }
  void publish(std::shared_ptr<const StoredPass> complete) const {
    const std::lock_guard lock(mutex_);
    if (!stored_) stored_ = std::move(complete);
  }

  // Returns where the stored pass began; empty if none is stored.
  std::string stored_start() const;

  std::string file;  // empty: the cache is in memory

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const StoredPass> stored_;
};

}  // namespace cohort::data::internal
