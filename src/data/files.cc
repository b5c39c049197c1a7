#include <glob.h>

#include <algorithm>

#include "base/raise.h"
#include "data/node.h"

namespace cohort::data {
namespace {

struct Matches {
  glob_t found{};
  ~Matches() { ::globfree(&found); }
};

// Returns 1, which ends the search, if a directory cannot be listed for lack of resources: it may
// have matches. A directory that this user may not read has none.
int on_error(const char*, int error) {
  return cohort::internal::code_of_errno(error) == Code::ResourceExhausted ? 1 : 0;
}

void add_matches(const std::string& pattern, std::vector<std::string>& names) {
  Matches matches;
  const int result = ::glob(pattern.c_str(), GLOB_TILDE, on_error, &matches.found);
  if (result == GLOB_NOMATCH || (result == 0 && matches.found.gl_pathc == 0)) {
    internal::raise(Code::NotFound, "[Files] no file matches '{}'", pattern);
  }
  if (result != 0) {
    internal::raise(Code::ResourceExhausted,
                    "[Files] cannot list '{}': this process has no free file descriptors or no "
                    "memory; close files, or raise the limit (ulimit -n)",
                    pattern);
  }
  names.insert(names.end(), matches.found.gl_pathv,
               matches.found.gl_pathv + matches.found.gl_pathc);
}

}  // namespace

Files::Files(const std::vector<std::string>& paths)
    : names_(from_tensor_slices(Element(Tensor::from(std::vector<std::string>(paths))))) {}

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
