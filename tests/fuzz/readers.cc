// One fuzz target per reader; the variable COHORT_FUZZ_TARGET chooses. Whatever the bytes are, a
// reader returns or throws an Error.

#include "cohort/readers.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "chosen_target.h"
#include "cohort/event_file.h"
#include "cohort/summary.h"
#include "data/array_file.h"
#include "data/iterator_position.h"
#include "data/tfrecord.h"
#include "support/memory_source.h"

namespace cohort::data {
namespace {

using internal::BufferedBytes;
using Bytes = std::span<const std::byte>;

BufferedBytes buffered(Bytes bytes) {
  return BufferedBytes(internal::decompressed(internal::memory_source(bytes, "input")));
}

// The bytes as a file, for readers that are stages.
std::string file_of(Bytes bytes) {
  static const std::string path = "/dev/shm/cohort_fuzz_" + std::to_string(::getpid());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return path;
}

// How many bytes there are after decompression, as far as that goes.
size_t readable_bytes(Bytes bytes) {
  constexpr size_t kMax = 1 << 20;
  size_t count = 0;
  (void)capture_status([&] {
    BufferedBytes input = buffered(bytes);
    for (size_t part = 1; part > 0 && count < kMax; count += part) {
      part = input.window().size();
      input.consume(part);
    }
  });
  return count;
}

// Calls until `next` gives false, which it must do: an error gets past at least a byte.
template <typename Next>
void drain(Bytes bytes, const Next& next) {
  constexpr int kMaxElements = 10'000;
  const size_t most_errors = readable_bytes(bytes) + 2;
  size_t errors = 0;
  bool more = true;
  for (int i = 0; i < kMaxElements && more; ++i) {
    const Status status = capture_status([&] { more = next(); });
    errors += status.ok() ? 0 : 1;
    if (errors > most_errors) std::abort();
  }
}

void drain(Bytes bytes, const Dataset& dataset) {
  Iterator it = dataset.iterator();
  drain(bytes, [&] { return it.next_optional().has_value(); });
}

void fuzz_idx(Bytes bytes) {
  BufferedBytes input = buffered(bytes);
  internal::parse_idx(input);
}
void fuzz_npy(Bytes bytes) {
  BufferedBytes input = buffered(bytes);
  internal::parse_npy(input);
}
void fuzz_npz(Bytes bytes) { internal::parse_npz(bytes, "input"); }
void fuzz_tfrecord(Bytes bytes) {
  // With and without checksums, which random bytes hardly ever match.
  for (const bool check : {true, false}) {
    internal::TFRecordFile file(internal::decompressed(internal::memory_source(bytes, "input")),
                                {.check_crc = check});
    std::string record;
    drain(bytes, [&] { return file.next(record); });
  }
}
void fuzz_csv(Bytes bytes) {
  drain(bytes,
        csv(file_of(bytes), {{kInt32, Tensor(1)}, {kFloat32}, {kString}}, {.header = false}));
}
void fuzz_text(Bytes bytes) { drain(bytes, text_lines(file_of(bytes), {.max_line_bytes = 1000})); }
void fuzz_cifar(Bytes bytes) { drain(bytes, cifar10(file_of(bytes))); }
void fuzz_example(Bytes bytes) {
  parse_example(std::string(internal::as_text(bytes)),
                {{"x", {kFloat32, {-1}}}, {"n", {kInt64}}, {"s", {kString, {-1, 2}, Tensor("")}}});
}
// As one record whose checksums are right, which those of random bytes hardly ever are.
void fuzz_events(Bytes bytes) {
  const std::string path = file_of(bytes);
  (void)capture_status([&] { (void)read_events(path); });
  TFRecordWriter writer(path);
  writer.write(internal::as_text(bytes));
  writer.close();
  (void)read_events(path);
}
void fuzz_description(Bytes bytes) {
  (void)Dataset::deserialize(std::string(internal::as_text(bytes))).to_string();
}
void fuzz_position(Bytes bytes) {
  internal::StateReader state(internal::as_text(bytes));
  while (!state.at_end()) (void)state.element();
}

constexpr std::pair<std::string_view, void (*)(Bytes)> kTargets[] = {
    {"cifar", fuzz_cifar},   {"csv", fuzz_csv},          {"description", fuzz_description},
    {"events", fuzz_events}, {"example", fuzz_example},  {"idx", fuzz_idx},
    {"npy", fuzz_npy},       {"npz", fuzz_npz},          {"position", fuzz_position},
    {"text", fuzz_text},     {"tfrecord", fuzz_tfrecord}};

}  // namespace
}  // namespace cohort::data

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto target = cohort::chosen_target(cohort::data::kTargets);
  const auto bytes = std::as_bytes(std::span(data, size));
  (void)cohort::capture_status([&] { target(bytes); });
  return 0;
}
