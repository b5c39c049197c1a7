#include "distribute/sharded_slice.h"

#include <algorithm>

#include "base/raise.h"

namespace cohort::internal {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

// begin:end:step over `rows` rows, with the bounds that Python's slices have.
struct Walk {
  int64_t begin, end, step;

  Walk(const Range& range, int64_t rows) : step(range.step) {
    const bool up = step > 0;
    const int64_t lowest = up ? 0 : -1;
    const int64_t highest = up ? rows : rows - 1;
    const auto bound = [&](const std::optional<int64_t>& given, int64_t otherwise) {
      if (!given) return otherwise;
      return std::clamp(*given < 0 ? *given + rows : *given, lowest, highest);
    };
    begin = bound(range.begin, up ? 0 : rows - 1);
    end = bound(range.end, up ? rows : -1);
  }

  // What is in rows [from, to), counted from `from`; nullopt when nothing is.
  std::optional<Range> within(int64_t from, int64_t to) const {
    const int64_t skipped =
        step > 0 ? ceil_div(from - begin, step) : ceil_div(begin - (to - 1), -step);
    const int64_t first = begin + skipped * step;
    if (step > 0) {
      const int64_t stop = std::min(to, end);
      if (first >= stop) return std::nullopt;
      return Range{first - from, stop - from, step};
    }
    const int64_t stop = std::max(from - 1, end);
    if (first <= stop) return std::nullopt;
    Range local{first - from, std::nullopt, step};
    if (stop >= from) local.end = stop - from;
    return local;
  }
};

Tensor read_slice(const Variable& shard, const Range& rows, const std::vector<Range>& ranges) {
  std::vector<Range> local = ranges;
  local[0] = rows;
  return slice(shard.read_value(), local);
}

}  // namespace

Tensor slice_shards(const ShardedVariableImpl& variable, const std::vector<Range>& ranges) {
  std::vector<Range> all = ranges;
  if (all.empty()) all.emplace_back();
  if (all[0].step == 0) {
    raise(Code::InvalidArgument, "[ShardedVariable] a slice of '{}' has step 0", variable.name());
  }
  const std::vector<Variable>& shards = variable.shards();
  const Walk walk(all[0], variable.begin(shards.size()));
  std::vector<Tensor> parts;
  for (size_t i = 0; i < shards.size(); ++i) {
    const size_t k = walk.step > 0 ? i : shards.size() - 1 - i;
    const auto rows = walk.within(variable.begin(k), variable.begin(k + 1));
    if (rows) parts.push_back(read_slice(shards[k], *rows, all));
  }
  if (parts.empty()) return read_slice(shards[0], {0, 0}, all);
  return parts.size() == 1 ? parts[0] : concat(parts, 0);
}

Tensor row_of_shards(const ShardedVariableImpl& variable, int64_t row) {
  const size_t count = variable.shards().size();
  const int64_t rows = variable.begin(count);
  const int64_t found = row < 0 ? row + rows : row;
  if (found < 0 || found >= rows) {
    raise(Code::InvalidArgument, "[ShardedVariable] '{}' has {} rows, there is no row {}",
          variable.name(), rows, row);
  }
  return squeeze(slice_shards(variable, {{.begin = found, .end = found + 1}}), {0});
}

void require_row_vector(const Tensor& rows, std::string_view what, const std::string& name) {
  const bool vector = !rows.shape().has_rank() || rows.shape().rank() == 1;
  if (vector && is_integer(rows.dtype())) return;
  raise(Code::InvalidArgument, "[{}] the rows of '{}' are named by a vector of integers, got {} {}",
        what, name, to_string(rows.dtype()), rows.shape().to_string());
}

}  // namespace cohort::internal
