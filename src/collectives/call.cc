#include "collectives/call.h"

#include <fmt/ranges.h>

#include <array>
#include <ctime>

#include "base/collective_purpose.h"
#include "base/hash.h"
#include "base/raise.h"
#include "base/text.h"

namespace cohort::internal {
namespace {

struct Names {
  std::string_view in_brackets;
  std::string_view as_called;
};

constexpr std::array<Names, 11> kNames = {{{"Meet", "the first rendezvous"},
                                           {"AllReduce", "all_reduce"},
                                           {"Broadcast", "broadcast"},
                                           {"Reduce", "reduce"},
                                           {"AllGather", "all_gather"},
                                           {"ReduceScatter", "reduce_scatter"},
                                           {"AllToAll", "all_to_all"},
                                           {"Barrier", "barrier"},
                                           {"MakePack", "make_pack"},
                                           {"Split", "split"},
                                           {"Calibrate", "calibrate"}}};

bool has_op(CallKind kind) {
  return kind == CallKind::AllReduce || kind == CallKind::Reduce || kind == CallKind::ReduceScatter;
}
bool has_root(CallKind kind) { return kind == CallKind::Broadcast || kind == CallKind::Reduce; }
bool has_values(CallKind kind) {
  return has_op(kind) || kind == CallKind::Broadcast || kind == CallKind::AllGather ||
         kind == CallKind::MakePack;
}

// Calls carry it, so builds of one version must agree on its bits.
uint64_t mix_text(std::string_view text) {
  uint64_t hash = text.size();
  for (const char c : text) hash = mix(hash, static_cast<unsigned char>(c));
  return hash;
}

// Without the purpose.
std::string operation(const Call& call) {
  std::string text(kNames[static_cast<size_t>(call.kind)].as_called);
  if (has_op(call.kind)) {
    text += fmt::format("({}{})", to_string(call.op),
                        has_root(call.kind) ? fmt::format(", to rank {}", call.root) : "");
  } else if (has_root(call.kind)) {
    text += fmt::format("(from rank {})", call.root);
  }
  const std::string_view place = call.on_gpu ? " on GPUs" : "";
  if (!call.detail.empty()) return fmt::format("{} of {}{}", text, call.detail, place);
  if (!has_values(call.kind)) return text;
  const std::string pack = call.pack != 0 ? fmt::format(", the pack of call {}", call.pack) : "";
  return fmt::format("{} of {} {}{}{}", text, to_string(call.dtype), call.shape.to_string(), place,
                     pack);
}

}  // namespace

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b + kSplitMixStep)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::string_view name_of(CallKind kind) { return kNames[static_cast<size_t>(kind)].in_brackets; }

std::string to_string(const Call& call) {
  std::string text = operation(call);
  if (!call.purpose.empty()) text += " for " + call.purpose;
  if (call.line != 0) text += fmt::format(" at {}:{}", call.file, call.line);
  return text;
}

void check_dtype(CallKind kind, ReduceOp op, DType dtype) {
  if (!is_numeric(dtype)) {
    raise(Code::InvalidArgument, "[{}] takes numbers, not {}", name_of(kind), to_string(dtype));
  }
  const bool counts = op == ReduceOp::Sum || op == ReduceOp::Mean;
  if (kind != CallKind::Broadcast && kind != CallKind::AllGather && dtype == kBool && counts) {
    raise(Code::InvalidArgument,
          "[{}] {} of bools is not defined; use Max for any, Min for all, and a cast to numbers to "
          "count",
          name_of(kind), to_string(op));
  }
}

void set_purpose(Call& call) {
  const CollectivePurpose* const purpose = CollectivePurpose::current();
  if (purpose == nullptr || call.kind == CallKind::Meet) return;
  call.purpose = purpose->text();
  call.line = purpose->site().line;
  if (call.line == 0) return;
  call.file = last_part(purpose->site().file);  // the same wherever the program was built
  if (compares_sites()) call.site = mix(mix_text(call.file), static_cast<uint64_t>(call.line));
}

std::string describe_tensors(DType dtype, std::span<const Shape> shapes) {
  constexpr size_t kShown = 3;
  std::vector<std::string> shown;
  uint64_t all = 0;
  for (const Shape& shape : shapes) {
    if (shown.size() < kShown) shown.push_back(shape.to_string());
    for (const int64_t size : shape) all = mix(all, static_cast<uint64_t>(size));
    all = mix(all, static_cast<uint64_t>(shape.rank()));
  }
  return fmt::format("{} tensors of {}: {}{} [{:x}]", shapes.size(), to_string(dtype),
                     fmt::join(shown, ", "), shapes.size() > kShown ? ", ..." : "", all & 0xffffff);
}

uint64_t fingerprint(const Call& call) {
  uint64_t hash =
      mix(static_cast<uint64_t>(call.kind) | static_cast<uint64_t>(call.op) << 8 |
              static_cast<uint64_t>(call.dtype) << 16 | static_cast<uint64_t>(call.on_gpu) << 24,
          static_cast<uint64_t>(call.root));
  for (const int64_t size : call.shape) hash = mix(hash, static_cast<uint64_t>(size));
  if (call.pack != 0) hash = mix(hash, call.pack);
  if (!call.detail.empty()) hash = mix(hash, mix_text(call.detail));
  if (!call.purpose.empty()) hash = mix(hash, ~mix_text(call.purpose));
  return hash;
}

bool agree(const Call& a, const Call& b) {
  return same_site(a.site, b.site) && fingerprint(a) == fingerprint(b);
}

// Some milliseconds do not matter here, but what looking at the clock costs does.
CallLog::Seconds CallLog::now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::optional<CallLog::Difference> CallLog::begin(const Call& mine) {
  const std::lock_guard lock(mutex_);
  recent_[mine.number % kRemembered] = mine;
  begun_ = mine.number + 1;
  is_running_ = true;
  since_ = now();
  std::optional<Difference> difference;
  while (!announced_.empty() && announced_.begin()->first.first <= mine.number) {
    const auto& [key, announced] = *announced_.begin();
    const auto& [theirs, refused] = announced;
    if (key.first == mine.number && !difference && !agree(theirs, mine)) {
      difference = Difference{mine, key.second, theirs, refused};
    }
    announced_.erase(announced_.begin());
  }
  return difference;
}

std::optional<CallLog::Difference> CallLog::announced(int other, const Call& theirs) {
  const std::lock_guard lock(mutex_);
  const auto refused = refusals_.find(other);
  std::string why;
  if (refused != refusals_.end() && refused->second.number <= theirs.number) {
    why = std::move(refused->second.why);
    refusals_.erase(refused);
    has_refusals_ = !refusals_.empty();
  }
  if (theirs.number >= begun_) {
    announced_.try_emplace({theirs.number, other}, theirs, std::move(why));
    return std::nullopt;
  }
  const Call& mine = recent_[theirs.number % kRemembered];
  const bool forgotten = mine.number != theirs.number;
  if (forgotten || agree(theirs, mine)) return std::nullopt;
  return Difference{mine, other, theirs, std::move(why)};
}

void CallLog::refused(Refusal refusal) {
  const std::lock_guard lock(mutex_);
  const int other = refusal.other;
  refusals_.insert_or_assign(other, std::move(refusal));
  has_refusals_ = true;
}

std::optional<CallLog::Refusal> CallLog::refusal(uint64_t number,
                                                 std::chrono::nanoseconds age) const {
  if (!has_refusals_.load(std::memory_order_acquire)) return std::nullopt;
  const auto before = std::chrono::steady_clock::now() - age;
  const std::lock_guard lock(mutex_);
  for (const auto& [other, refusal] : refusals_) {
    if (refusal.number <= number && refusal.when <= before) return refusal;
  }
  return std::nullopt;
}

std::optional<CallLog::Refusal> CallLog::refusal_of(int other) const {
  const std::lock_guard lock(mutex_);
  const auto found = refusals_.find(other);
  return found != refusals_.end() ? std::optional(found->second) : std::nullopt;
}

std::string CallLog::activity() const {
  const std::lock_guard lock(mutex_);
  const Seconds age = now() - since_;
  if (begun_ == 0) return fmt::format("it has not met the others for {:.1f} s", age);
  const Call& last = recent_[(begun_ - 1) % kRemembered];
  const std::string text = fmt::format("call {}, {}", last.number, to_string(last));
  return is_running_
             ? fmt::format("it is in {}, for {:.1f} s", text, age)
             : fmt::format("it finished {} {:.1f} s ago, and has made no call since", text, age);
}

}  // namespace cohort::internal
