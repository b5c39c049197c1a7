#include <glob.h>

#include <algorithm>

#include "data/node.h"

namespace cohort::data {
namespace {

struct Matches {
  glob_t found{};
  ~Matches() { ::globfree(&found); }
};

void add_matches(const std::string& pattern, std::vector<std::string>& names) {
  Matches matches;
  const int result = ::glob(pattern.c_str(), GLOB_TILDE, nullptr, &matches.found);
  if (result == GLOB_NOMATCH || (result == 0 && matches.found.gl_pathc == 0)) {
    internal::raise(Code::NotFound, "[Files] no file matches '{}'", pattern);
  }
  if (result != 0) {
    internal::raise(result == GLOB_NOSPACE ? Code::ResourceExhausted : Code::PermissionDenied,
                    "[Files] cannot list '{}'", pattern);
  }
  names.insert(names.end(), matches.found.gl_pathv,
               matches.found.gl_pathv + matches.found.gl_pathc);
}

}  // namespace

Dataset files(const std::vector<std::string>& patterns) {
  if (patterns.empty())
    internal::raise(Code::InvalidArgument, "[Files] the list of patterns is empty");
  std::vector<std::string> names;
  for (const std::string& pattern : patterns) add_matches(pattern, names);
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return from_tensor_slices(Element(Tensor::from(std::move(names))));
}

}  // namespace cohort::data
