// Fuzz targets for the files of checkpoints; the variable COHORT_FUZZ_TARGET chooses. Whatever the
// bytes are, a reader returns or throws an Error, and what it returns lies inside of the bytes.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "checkpoint/checkpoint_list.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_file.h"
#include "chosen_target.h"
#include "cohort/error.h"
#include "data/byte_source.h"

namespace cohort::internal {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const Manifest& manifest) {
  for (const auto& [name, entry] : manifest.tensors) {
    for (const SavedSlice& slice : entry.slices) {
      require(slice.file < manifest.files.size());
      const uint64_t size = manifest.files[slice.file].size;
      require(slice.size <= size && slice.begin <= size - slice.size);
      require(lies_in(slice.extent, entry.shape));
    }
  }
}

// As it is, and with a checksum that is right, which random bytes hardly ever have.
void fuzz_manifest(std::string_view bytes) {
  (void)capture_status([&] { check(parse_manifest(bytes, "input")); });
  constexpr size_t kBeforeChecked = 21;  // {"crc32c":"1a2b3c4d",
  const std::string rest(bytes.substr(std::min(kBeforeChecked, bytes.size())));
  const std::string checksum = checksum_text(data::internal::crc32c(rest));
  check(parse_manifest("{\"crc32c\":\"" + checksum + "\"," + rest, "input"));
}

void fuzz_safetensors(std::string_view bytes) {
  const uint64_t size = header_size(bytes.substr(0, 8), bytes.size(), "input");
  require(size <= bytes.size());
  for (const auto& [name, entry] : parse_header(bytes.substr(0, size), bytes.size(), "input")) {
    require(entry.size <= bytes.size() && entry.begin <= bytes.size() - entry.size);
    require(bytes_of(entry.dtype, entry.shape) == entry.size);
  }
}

void fuzz_state_file(std::string_view bytes) { (void)parse_state(bytes, "directory", "input"); }
void fuzz_shard_report(std::string_view bytes) { (void)parse_shard_report(bytes, "input"); }
void fuzz_saved_strings(std::string_view bytes) {
  for (const int64_t count : {0, 1, 3}) {
    (void)capture_status([&] { (void)decode_strings(bytes, {count}, "input"); });
  }
}

constexpr std::pair<std::string_view, void (*)(std::string_view)> kTargets[] = {
    {"manifest", fuzz_manifest},
    {"safetensors", fuzz_safetensors},
    {"saved_strings", fuzz_saved_strings},
    {"shard_report", fuzz_shard_report},
    {"state_file", fuzz_state_file}};

}  // namespace
}  // namespace cohort::internal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto target = cohort::chosen_target(cohort::internal::kTargets);
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)cohort::capture_status([&] { target(bytes); });
  return 0;
}
