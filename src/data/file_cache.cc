#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "data/cache.h"
#include "data/file_writer.h"
#include "data/reader.h"
#include "data/tfrecord.h"

namespace cohort::data::internal {
namespace {

constexpr std::string_view kFileHead = "cohort cache 1";
constexpr std::string_view kFileEnd = "end of cohort cache";

// The file is a TFRecord file: a head, where the pass began, one record per element, an end. It
// gets its name when it is complete.

// The file before its first element; nullopt when there is none.
std::optional<TFRecordFile> open_stored(const std::string& name, std::string& start) {
  if (!std::filesystem::exists(name)) return std::nullopt;
  TFRecordFile file(open_bytes(name), TFRecordOptions{.max_record_bytes = int64_t{1} << 40});
  std::string head;
  if (!file.next(head) || head != kFileHead || !file.next(start)) {
    raise(Code::DataLoss, "[Cache] '{}' is not a cache; delete it, or give another name", name);
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

}  // namespace

std::string start_in_file(const std::string& file) {
  std::string start;
  open_stored(file, start);
  return start;
}

CursorPtr open_file_cache(const CacheNode& node, const Context& context) {
  return std::make_unique<FileCacheCursor>(node, context);
}

}  // namespace cohort::data::internal
