#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cohort/tensor.h"

namespace cohort::internal {

class GraphFunction;  // a traced body that an op runs (cond, while_loop, a call); graph/ has it

using AttrValue =
    std::variant<bool, int64_t, double, std::string, DType, Shape, std::vector<int64_t>,
                 std::vector<std::string>, Tensor, std::shared_ptr<const GraphFunction>>;

// The constants of one op call, by name: what a serialized node carries besides its inputs. Names
// are literals. Few per op, so a list beats a map.
class Attrs {
 public:
  using Entry = std::pair<std::string_view, AttrValue>;

  Attrs() = default;
  Attrs(std::initializer_list<Entry> entries) : entries_(entries) {}

  // Throws Internal when the op has no such attribute: every op sets all of its own.
  template <typename T>
  const T& get(std::string_view name) const {
    return std::get<T>(find(name));
  }
  bool flag(std::string_view name) const { return get<bool>(name); }
  int64_t integer(std::string_view name) const { return get<int64_t>(name); }
  double number(std::string_view name) const { return get<double>(name); }
  const std::vector<int64_t>& integers(std::string_view name) const {
    return get<std::vector<int64_t>>(name);
  }

  bool has(std::string_view name) const;
  void set(std::string_view name, AttrValue value) {
    entries_.emplace_back(name, std::move(value));
  }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  const AttrValue& find(std::string_view name) const;

  std::vector<Entry> entries_;
};

}  // namespace cohort::internal
