#include "base/read_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "base/file_descriptor.h"

namespace cohort::internal {

std::optional<std::string> read_file(const std::string& path, size_t max_bytes) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  // Files of /proc do not tell their size.
  constexpr size_t kFirstStep = 4096;
  std::string text;
  while (text.size() < max_bytes) {
    const size_t size = text.size();
    const size_t step = std::min(std::max(kFirstStep, size), max_bytes - size);
    text.resize(size + step);
    const ssize_t count = ::read(file.get(), text.data() + size, step);
    text.resize(size + static_cast<size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) break;
    if (count < 0 && errno != EINTR) return std::nullopt;
  }
  return text;
}

}  // namespace cohort::internal
