#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "base/mutex.h"
#include "cohort/readers.h"
#include "data/stage.h"
#include "data/tfrecord.h"

namespace cohort::data {
namespace internal {
namespace {

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
  bool caches() const override { return true; }
  CursorPtr open(const Context& context) const override;
  void fields(Fields& fields) override { fields.field("file", file); }
  std::string stored_start() const override;

  std::shared_ptr<const StoredPass> stored() const {
    const std::lock_guard lock(mutex_);
    return stored_;
  }
  void publish(std::shared_ptr<const StoredPass> complete) const {
    const std::lock_guard lock(mutex_);
    if (!stored_) stored_ = std::move(complete);
  }

  std::string file;  // empty: the cache is in memory

 private:
  mutable cohort::internal::Mutex mutex_;
  mutable std::shared_ptr<const StoredPass> stored_;
};

// The base class of the cursors for both kinds of cache.
//
// A position consists of the numbers of elements and of failures so far, of the input's position at
// the start of the pass, and of whether later epochs of the walk deliver this pass again. Restoring
// a position reads the pass from the input again, unless it is the stored pass.
class CacheCursor : public SourceCursor<CacheNode> {
 public:
  CacheCursor(const CacheNode& node, const Context& context)
      : SourceCursor(node, context), context_(context) {}

  bool next(Element& out) final {
    check_running(context_);
    const bool found = input_ ? next_made(out) : next_stored(out);
    at_ += found ? 1 : 0;
    if (!found) choose_pass(start_);
    return found;
  }

 protected:
  // Constructors of derived classes call open() after they set start_ to the start of the stored
  // pass. A walk that reads its first pass from the input reads from the input until a pass is
  // complete, and delivers that pass in later epochs. Its elements depend neither on passes that
  // other walks store meanwhile nor on elements that failed.
  void open() {
    const std::optional<std::string> chosen = chosen_pass();
    if (chosen ? chosen->empty() : start_.empty()) begin_pass();
    if (chosen && !chosen->empty() && *chosen != start_) begin_pass_at(*chosen);
    choose_pass(input_ ? chosen.value_or("") : start_);
  }

  virtual bool next_stored(Element& out) = 0;
  // Called with each element of input_.
  virtual void keep(const Element& element) = 0;
  // Called at the end of a pass without failures.
  virtual void complete() = 0;
  // From now on elements come from the input.
  virtual void begin_pass() {
    input_ = node_.input().open(context_);
    StateWriter position;
    PositionFields fields(position);
    input_->position(fields);
    start_ = position.bytes();
  }
  void begin_pass_at(const std::string& start) {
    if (!input_) begin_pass();
    StateReader position(start);
    PositionFields fields(position);
    input_->position(fields);
    start_ = start;
  }

  const Context context_;
  CursorPtr input_;       // null if the elements are stored
  std::string start_;     // the input's position before the pass; empty before open()
  int64_t at_ = 0;        // elements delivered
  int64_t failures_ = 0;  // elements of the input that failed
  bool ended_ = false;

 private:
  // The pass that all epochs of this walk deliver: see Iteration::cached_pass().
  std::optional<std::string> chosen_pass() const {
    return context_.iteration->cached_pass(context_.walk(node_));
  }
  void choose_pass(const std::string& start) {
    context_.iteration->set_cached_pass(context_.walk(node_), start);
  }

  void local_position(PositionFields& fields) override {
    int64_t count = at_;
    int64_t failures = failures_;
    std::string start = start_;
    bool is_chosen = !chosen_pass().value_or("").empty();
    fields.integer(count, 0, INT64_MAX);
    fields.integer(failures, 0, INT64_MAX);
    fields.text(start);
    fields.flag(is_chosen);
    if (!fields.reading()) return;
    if (start != start_) begin_pass_at(start);
    choose_pass(is_chosen ? start : "");
    pass_over(count, failures);
  }

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
      if (failure.ok() && !found)
        raise_bad_state(
            fmt::format("the cached dataset ends before element {}, where the position is", count));
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
    node_.publish(std::make_shared<StoredPass>(StoredPass{std::move(seen_), start_}));
  }

  std::shared_ptr<const StoredPass> stored_;
  std::vector<Element> seen_;
};

constexpr std::string_view kFileHead = "cohort cache 1";
constexpr std::string_view kFileEnd = "end of cohort cache";

// A cache is a TFRecord file: a head, the start of the pass, one record per element, and an end.
// The file gets its name when it is complete.

// Opens the file and reads up to its first element. Returns nullopt if the file does not exist.
std::optional<TFRecordFile> open_stored(const std::string& name, std::string& start) {
  if (!std::filesystem::exists(name)) return std::nullopt;
  TFRecordFile file(open_bytes(name), TFRecordOptions{.max_record_bytes = int64_t{1} << 40});
  std::string head;
  if (!file.next(head) || head != kFileHead || !file.next(start)) {
    raise(Code::DataLoss,
          "[Cache] '{}' is not a file of cache(); delete the file or give another name", name);
  }
  return file;
}

class FileCacheCursor : public CacheCursor {
 public:
  FileCacheCursor(const CacheNode& node, const Context& context) : CacheCursor(node, context) {
    file_ = open_stored(node.file, start_);
    open();
  }
  ~FileCacheCursor() override { drop_partial(); }

 private:
  bool next_stored(Element& out) override {
    if (ended_) return false;
    std::string record;
    if (!file_->next(record)) {
      ended_ = true;
      raise(Code::DataLoss,
            "[Cache] '{}' ends after {} elements, without the mark of its end; delete the file",
            node_.file, at_);
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

  // Writes the head with the first element. Until then, a restored position may still set the start
  // of the pass.
  void start() {
    if (std::exchange(started_, true)) return;
    write_record(*writer_, kFileHead);
    write_record(*writer_, start_);
  }

  void keep(const Element& element) override {
    start();
    StateWriter record;
    record.element(element);
    write_record(*writer_, record.bytes());
  }

  void complete() override {
    start();
    write_record(*writer_, kFileEnd);
    writer_->close();
    // The first complete pass stays. On file systems without hard links the last one stays.
    std::error_code failure;
    std::filesystem::create_hard_link(partial_, node_.file, failure);
    if (failure && failure != std::errc::file_exists) {
      std::filesystem::rename(partial_, node_.file);
    }
    drop_partial();
  }

  void drop_partial() {
    if (!writer_) return;
    writer_.reset();
    std::error_code ignored;
    std::filesystem::remove(partial_, ignored);
  }

  std::optional<TFRecordFile> file_;  // the complete file that is being read, or
  std::optional<FileWriter> writer_;  // the file that is being written
  std::string partial_;
  bool started_ = false;
};

CursorPtr CacheNode::open(const Context& context) const {
  if (!file.empty()) return std::make_unique<FileCacheCursor>(*this, context);
  return std::make_unique<MemoryCacheCursor>(*this, context);
}

std::string CacheNode::stored_start() const {
  if (!file.empty()) {
    std::string start;
    open_stored(file, start);
    return start;
  }
  const std::shared_ptr<const StoredPass> pass = stored();
  return pass ? pass->start : std::string();
}

}  // namespace

std::shared_ptr<Node> make_cache() { return std::make_shared<CacheNode>(); }

}  // namespace internal

Dataset Dataset::cache() const { return internal::add_stage<internal::CacheNode>({node_}); }

Dataset Dataset::cache(const std::string& file) const {
  if (file.empty()) internal::raise(Code::InvalidArgument, "[Cache] the name of the file is empty");
  return internal::add_stage<internal::CacheNode>({node_}, [&](auto& node) { node.file = file; });
}

}  // namespace cohort::data
