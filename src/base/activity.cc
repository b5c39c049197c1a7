#include "base/activity.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/file_descriptor.h"
#include "base/text.h"

namespace cohort::internal {
namespace {

// How an Activity lies in memory that two processes see. Where the two are of different builds, the
// tag differs. Times are nanoseconds of the steady clock, which all processes of a machine share.
struct ActivityBoard {
  static constexpr uint64_t kTag = 0x436f686f72743032;
  static constexpr size_t kSlots = 16;
  static constexpr size_t kTextBytes = 256;
  using Text = std::array<std::atomic<char>, kTextBytes>;  // ends at a zero, or full

  // One wait. A slot with an odd version is being written. A reader that finds another version
  // after reading than before has read a mixture.
  struct Slot {
    std::atomic<bool> taken;
    std::atomic<uint32_t> version;
    std::atomic<int64_t> since;  // 0: none
    std::atomic<uint8_t> kind;
    Text what;
    Text whom;  // names with commas between them
  };

  // The progress of a training. Versions work as in a slot.
  struct Progress {
    std::atomic<uint32_t> version;
    std::atomic<bool> quiet;
    std::atomic<bool> printed;
    Text text;
  };

  std::atomic<uint64_t> tag;
  std::atomic<int32_t> process;  // the writer
  std::atomic<uint64_t> steps;
  std::atomic<int64_t> input_ns;
  std::atomic<int64_t> wait_ns;
  std::atomic<int64_t> input_since;  // 0: none
  Progress progress;
  std::array<Slot, kSlots> slots;
};
static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

constexpr char kActivityFileVariable[] = "COHORT_ACTIVITY_FILE";
constexpr auto kRelaxed = std::memory_order_relaxed;

int64_t nanoseconds(WaitNote::Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}
double seconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }
double seconds_between(int64_t time, WaitNote::Clock::time_point now) {
  return time == 0 ? 0 : std::max(0.0, seconds(nanoseconds(now) - time));
}

ActivityBoard* map_file(const char* path) {
  const FileDescriptor file(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file) return nullptr;
  void* memory = MAP_FAILED;
  if (ftruncate(file.get(), sizeof(ActivityBoard)) == 0) {
    memory =
        mmap(nullptr, sizeof(ActivityBoard), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  }
  return memory == MAP_FAILED ? nullptr : static_cast<ActivityBoard*>(memory);
}

// A board belongs to the first process that takes it, and to the next process once that one ended.
bool take_over(ActivityBoard& board) {
  int32_t owner = board.process.load();
  const bool free = owner == 0 || owner == getpid() || (kill(owner, 0) != 0 && errno == ESRCH);
  return free && board.process.compare_exchange_strong(owner, getpid());
}

struct LocalBoard {
  ActivityBoard& board;
  bool shared;
};

LocalBoard make_board() {
  if (const char* const path = std::getenv(kActivityFileVariable)) {
    ActivityBoard* const shared = map_file(path);
    if (shared != nullptr && take_over(*shared)) {
      shared->tag = ActivityBoard::kTag;
      return {*shared, true};
    }
  }
  auto* const made = new ActivityBoard{};  // lives as long as the process
  made->tag = ActivityBoard::kTag;
  made->process = getpid();
  return {*made, false};
}

const LocalBoard& local_board() {
  static const LocalBoard only = make_board();
  return only;
}
ActivityBoard& board() { return local_board().board; }

void write_text(ActivityBoard::Text& to, std::string_view text) {
  const size_t size = std::min(text.size(), to.size());
  for (size_t i = 0; i < size; ++i) to[i].store(text[i], kRelaxed);
  if (size < to.size()) to[size].store('\0', kRelaxed);
}

std::string read_text(const ActivityBoard::Text& from) {
  std::string text;
  for (const std::atomic<char>& letter : from) {
    const char read = letter.load(kRelaxed);
    if (read == '\0') break;
    // The text goes to a terminal, where control characters would act.
    text += static_cast<unsigned char>(read) < ' ' ? ' ' : read;
  }
  return text;
}

std::vector<std::string> separated(const std::string& text) {
  std::vector<std::string> names;
  for (const std::string_view name : split(text, ',')) names.emplace_back(name);
  if (names.back().empty()) names.pop_back();
  return names;
}

std::optional<ActivityWait> read_slot(const ActivityBoard::Slot& slot,
                                      WaitNote::Clock::time_point now) {
  const uint32_t before = slot.version.load(std::memory_order_acquire);
  const int64_t since = slot.since.load(kRelaxed);
  const ActivityWait wait{
      .kind = slot.kind.load(kRelaxed) == 0 ? WaitKind::Tensor : WaitKind::Answer,
      .what = read_text(slot.what),
      .whom = separated(read_text(slot.whom)),
      .seconds = seconds_between(since, now)};
  std::atomic_thread_fence(std::memory_order_acquire);
  const bool whole = before % 2 == 0 && slot.version.load(kRelaxed) == before;
  return since != 0 && whole ? std::optional(wait) : std::nullopt;
}

std::optional<ProgressNote> read_progress(const ActivityBoard::Progress& progress) {
  const uint32_t before = progress.version.load(std::memory_order_acquire);
  const ProgressNote note{.text = read_text(progress.text),
                          .quiet = progress.quiet.load(kRelaxed),
                          .printed = progress.printed.load(kRelaxed)};
  std::atomic_thread_fence(std::memory_order_acquire);
  const bool whole = before % 2 == 0 && progress.version.load(kRelaxed) == before;
  return whole ? std::optional(note) : std::nullopt;
}

Activity read_board(const ActivityBoard& board, WaitNote::Clock::time_point now) {
  Activity activity{.process = board.process.load(kRelaxed),
                    .waits = {},
                    .steps = board.steps.load(kRelaxed),
                    .input_seconds = seconds(board.input_ns.load(kRelaxed)),
                    .wait_seconds = seconds(board.wait_ns.load(kRelaxed)),
                    .current_input_seconds = seconds_between(board.input_since.load(kRelaxed), now),
                    .progress = read_progress(board.progress)};
  for (const ActivityBoard::Slot& slot : board.slots) {
    if (auto wait = read_slot(slot, now)) activity.waits.push_back(*std::move(wait));
  }
  return activity;
}

// Writes the contents of a part that has a version.
template <typename Part, typename Fill>
void change(Part& part, const Fill& fill) {
  part.version.fetch_add(1, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  fill();
  part.version.fetch_add(1, std::memory_order_release);
}

}  // namespace

Activity local_activity(WaitNote::Clock::time_point now) { return read_board(board(), now); }

std::optional<Activity> read_activity(const std::string& file) {
  const FileDescriptor opened(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened) return std::nullopt;
  // Reads twice into copies, because the file may become shorter at any time. A slot that changed
  // between the two reads may be a mixture and is left out.
  const auto copy = std::make_unique<ActivityBoard>(), later = std::make_unique<ActivityBoard>();
  constexpr auto kBytes = static_cast<ssize_t>(sizeof(ActivityBoard));
  const bool whole = pread(opened.get(), copy.get(), kBytes, 0) == kBytes &&
                     pread(opened.get(), later.get(), kBytes, 0) == kBytes;
  if (!whole || copy->tag != ActivityBoard::kTag) return std::nullopt;
  for (size_t i = 0; i < ActivityBoard::kSlots; ++i) {
    if (copy->slots[i].version != later->slots[i].version) copy->slots[i].since = 0;
  }
  Activity activity = read_board(*copy, WaitNote::Clock::now());
  if (copy->progress.version != later->progress.version) activity.progress.reset();
  return activity;
}

std::chrono::nanoseconds stall_limit() {
  static const std::chrono::nanoseconds limit = [] {
    const char* const text = std::getenv("COHORT_STALL_SECONDS");
    const double wanted = text == nullptr ? 0 : std::strtod(text, nullptr);
    const std::chrono::duration<double> time(wanted > 0 && wanted < 1e6 ? wanted : 5);
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time);
  }();
  return limit;
}

WaitNote::WaitNote(WaitKind kind, std::string_view what, const std::vector<std::string>& whom,
                   Clock::time_point since) {
  for (size_t i = 0; i < ActivityBoard::kSlots && slot_ < 0; ++i) {
    if (!board().slots[i].taken.exchange(true)) slot_ = static_cast<int>(i);
  }
  if (slot_ < 0) return;
  ActivityBoard::Slot& slot = board().slots[static_cast<size_t>(slot_)];
  change(slot, [&] {
    slot.kind.store(kind == WaitKind::Tensor ? 0 : 1, kRelaxed);
    write_text(slot.what, what);
    write_text(slot.whom, fmt::format("{}", fmt::join(whom, ",")));
    slot.since.store(nanoseconds(since), kRelaxed);
  });
}

WaitNote::~WaitNote() {
  if (slot_ < 0) return;
  ActivityBoard::Slot& slot = board().slots[static_cast<size_t>(slot_)];
  change(slot, [&] { slot.since.store(0, kRelaxed); });
  slot.taken.store(false);
}

WaitNote::WaitNote(WaitNote&& other) noexcept : slot_(std::exchange(other.slot_, -1)) {}

WaitNote& WaitNote::operator=(WaitNote&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

InputNote::InputNote() : began_(WaitNote::Clock::now()) {
  board().input_since.store(nanoseconds(began_), kRelaxed);
}

InputNote::~InputNote() {
  board().input_since.store(0, kRelaxed);
  board().input_ns.fetch_add(duration().count(), kRelaxed);
}

std::chrono::nanoseconds total_input() {
  return std::chrono::nanoseconds(board().input_ns.load(kRelaxed));
}

namespace {
std::atomic<int64_t> saving_ns{0};  // of this process
}  // namespace

SavingNote::~SavingNote() {
  saving_ns.fetch_add(std::chrono::nanoseconds(WaitNote::Clock::now() - began_).count(), kRelaxed);
}

std::chrono::nanoseconds total_saving() {
  return std::chrono::nanoseconds(saving_ns.load(kRelaxed));
}

void note_progress(const ProgressNote& note) {
  ActivityBoard::Progress& progress = board().progress;
  change(progress, [&] {
    progress.quiet.store(note.quiet, kRelaxed);
    progress.printed.store(note.printed, kRelaxed);
    write_text(progress.text, note.text);
  });
}
bool is_watched() { return local_board().shared; }
void note_step() { board().steps.fetch_add(1, kRelaxed); }
void note_group_wait(std::chrono::nanoseconds duration) {
  board().wait_ns.fetch_add(duration.count(), kRelaxed);
}

}  // namespace cohort::internal
