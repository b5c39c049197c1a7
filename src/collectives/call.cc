#include "collectives/call.h"

#include <fmt/ranges.h>

#include <array>

#include "base/collective_purpose.h"
#include "base/hash.h"

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

// The same wherever the program was built.
std::string_view without_directories(std::string_view file) {
  return file.substr(file.find_last_of('/') + 1);
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

void set_purpose(Call& call) {
  const CollectivePurpose* const purpose = CollectivePurpose::current();
  if (purpose == nullptr || call.kind == CallKind::Meet) return;
  call.purpose = purpose->text();
  call.line = purpose->site().line;
  if (call.line == 0) return;
  call.file = without_directories(purpose->site().file);
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

}  // namespace cohort::internal
