// The first pass in which no element fails stores the elements in memory or in a file; later passes
// read them from there.

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <mutex>

#include "data/file_writer.h"
#include "data/reader.h"
#include "data/stage.h"
#include "data/tfrecord.h"

namespace cohort::data {
namespace internal {
namespace {

// What a complete pass left in memory.
struct Stored {
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

  std::shared_ptr<const Stored> stored() const {
    const std::lock_guard lock(mutex_);
    return stored_;
  }
  void publish(std::shared_ptr<const Stored> complete) const {
    const std::lock_guard lock(mutex_);
    if (!stored_) stored_ = std::move(complete);
  }

  std::string file;  // empty: memory

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Stored> stored_;
};

std::string position_of(Cursor& cursor) {
  StateWriter state;
  cursor.save(state);
  return state.bytes();
}

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
    if (!found && failures_ == 0) remember(start_);
    return found;
  }

 protected:
  // Called by the constructors of derived classes once start_ says where the stored pass began, if
  // there is one. A walk that had to make its first pass goes on making passes until one is
  // complete, and then hands on that one: what others store meanwhile changes nothing.
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
    start_ = position_of(*input_);
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
    node_.publish(std::make_shared<Stored>(Stored{std::move(seen_), start_}));
  }

  std::shared_ptr<const Stored> stored_;
  std::vector<Element> seen_;
};

constexpr std::string_view kFileHead = "cohort cache 1";
constexpr std::string_view kFileEnd = "end of cohort cache";

// The file is a TFRecord file: a head, one record per element, an end. It gets its name when it is
// complete.
class FileCacheCursor : public CacheCursor {
 public:
  FileCacheCursor(const CacheNode& node, const Context& context) : CacheCursor(node, context) {
    if (std::filesystem::exists(node.file)) open_stored();
    open();
  }
  ~FileCacheCursor() override { drop_partial(); }

 private:
  void open_stored() {
    file_.emplace(open_bytes(node_.file), TFRecordOptions{.max_record_bytes = int64_t{1} << 40});
    std::string record;
    if (!file_->next(record) || record != kFileHead || !file_->next(start_)) {
      raise(Code::DataLoss, "[Cache] '{}' is not a cache; delete it, or give another name",
            node_.file);
    }
  }

  bool next_stored(Element& out) override {
    if (ended_) return false;
    std::string record;
    if (!file_->next(record)) {
      ended_ = true;
      raise(Code::DataLoss, "[Cache] '{}' ends after {} elements; delete it", node_.file, at_);
    }
    if (record == kFileEnd) {
      ended_ = true;
      return false;
    }
    StateReader reader(record);
    out = reader.element();
    return true;
  }

  void begin_pass() override {
    CacheCursor::begin_pass();
    file_.reset();
    drop_partial();
    static std::atomic<int64_t> count = 0;
    partial_ = fmt::format("{}.{}.{}.partial", node_.file, ::getpid(), count.fetch_add(1));
    writer_.emplace(partial_);
    started_ = false;
  }

  // The head is written with the first element: until then a restored position may still say where
  // the input begins.
  void start() {
    if (std::exchange(started_, true)) return;
    write(kFileHead);
    write(start_);
  }

  void keep(const Element& element) override {
    start();
    StateWriter record;
    record.element(element);
    write(record.bytes());
  }

  void complete() override {
    start();
    write(kFileEnd);
    writer_->close();
    // The first pass to be complete stays. Where files cannot have two names, the last one does.
    std::error_code failure;
    std::filesystem::create_hard_link(partial_, node_.file, failure);
    if (failure && failure != std::errc::file_exists) {
      std::filesystem::rename(partial_, node_.file);
    }
    drop_partial();
  }

  void write(std::string_view record) {
    writer_->write(tfrecord_head(record));
    writer_->write(record);
    writer_->write(tfrecord_tail(record));
  }

  void drop_partial() {
    if (!writer_) return;
    writer_.reset();
    std::error_code ignored;
    std::filesystem::remove(partial_, ignored);
  }

  std::optional<TFRecordFile> file_;  // reading
  std::optional<FileWriter> writer_;  // or writing
  std::string partial_;
  bool started_ = false;
};

CursorPtr CacheNode::open(const Context& context) const {
  if (file.empty()) return std::make_unique<MemoryCacheCursor>(*this, context);
  return std::make_unique<FileCacheCursor>(*this, context);
}

}  // namespace

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
