// The first pass in which no element fails stores the elements in memory or in a file; later passes
// read them from there.

#include "data/cache.h"

namespace cohort::data {
namespace internal {
namespace {

class MemoryCacheCursor : public CacheCursor {
 public:
  MemoryCacheCursor(const CacheNode& node, const Context& context)
      : CacheCursor(node, context), stored_(node.stored()) {
    if (stored_) start_ = stored_->start;
    open();
  }

 private:
  bool next_stored(Element& out) override {
    if (at_ == static_cast<int64_t>(stored_->elements.size())) return false;
    out = stored_->elements[static_cast<size_t>(at_)];
    return true;
  }
  void keep(const Element& element) override { seen_.push_back(element); }
  void complete() override {
    node_.publish(std::make_shared<StoredPass>(StoredPass{std::move(seen_), start_}));
  }

  std::shared_ptr<const StoredPass> stored_;
  std::vector<Element> seen_;
};

}  // namespace

CursorPtr CacheNode::open(const Context& context) const {
  if (!file.empty()) return open_file_cache(*this, context);
  return std::make_unique<MemoryCacheCursor>(*this, context);
}

std::string CacheNode::stored_start() const {
  if (!file.empty()) return start_in_file(file);
  const std::shared_ptr<const StoredPass> pass = stored();
  return pass ? pass->start : std::string();
}

std::shared_ptr<Node> make_cache() { return std::make_shared<CacheNode>(); }

}  // namespace internal

Dataset Dataset::cache() const {
  return internal::finish(internal::stage_on<internal::CacheNode>(node_));
}

Dataset Dataset::cache(const std::string& file) const {
  if (file.empty()) internal::raise(Code::InvalidArgument, "[Cache] the name of the file is empty");
  auto node = internal::stage_on<internal::CacheNode>(node_);
  node->file = file;
  return internal::finish(node);
}

}  // namespace cohort::data
