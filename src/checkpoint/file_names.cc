#include "checkpoint/file_names.h"

#include <fmt/format.h>

#include <cctype>

#include "checkpoint/durable_file.h"

namespace cohort::internal {
namespace {

constexpr size_t kIdDigits = 16;  // of random_id()

// ".0123456789abcdef-00000-of-00001.safetensors", where 0 is any digit of its kind.
bool is_data_ending(std::string_view ending) {
  static const std::string pattern = data_file_name("", std::string(kIdDigits, 'x'), 0, 0);
  if (ending.size() != pattern.size()) return false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const auto c = static_cast<unsigned char>(ending[i]);
    const bool fits = pattern[i] == 'x'   ? std::isxdigit(c) != 0
                      : pattern[i] == '0' ? std::isdigit(c) != 0
                                          : ending[i] == pattern[i];
    if (!fits) return false;
  }
  return true;
}

size_t data_ending_size() { return data_file_name("", std::string(kIdDigits, 'x'), 0, 0).size(); }

}  // namespace

std::string manifest_path(std::string_view prefix) {
  return std::string(prefix) + ".manifest.json";
}

std::string data_file_name(std::string_view prefix, const std::string& id, size_t index,
                           size_t count) {
  return fmt::format("{}.{}-{:05}-of-{:05}.safetensors", file_name_of(prefix), id, index, count);
}

bool is_data_file_name(std::string_view name) {
  const size_t size = data_ending_size();
  return name.size() > size && is_data_ending(name.substr(name.size() - size));
}

bool is_checkpoint_file_name(std::string_view name) {
  return is_data_file_name(name) || name.ends_with(manifest_path("")) ||
         name.ends_with(kIntentEnding);
}

}  // namespace cohort::internal
