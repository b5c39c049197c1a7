#pragma once

#include <array>
#include <initializer_list>
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

// What an attribute must hold.
enum class AttrKind { Bool, Int, Float, Text, DType, Shape, Pair, Axes, Ints, Tensor, Function };

// Whether the value is of the kind; lists also have a length that the kind allows.
bool matches(AttrKind kind, const AttrValue& value);
std::string_view to_string(AttrKind kind);

struct AttrDef {
  std::string_view name;  // a literal, as Attrs wants its names
  AttrKind kind;
};

// The attributes of an op: each call has all of them and no others.
class AttrList {
 public:
  constexpr AttrList() = default;
  constexpr AttrList(std::initializer_list<AttrDef> attrs) {
    for (const AttrDef& attr : attrs) attrs_[size_++] = attr;
  }
  constexpr AttrList operator+(const AttrList& more) const {
    AttrList all = *this;
    for (const AttrDef& attr : more) all.attrs_[all.size_++] = attr;
    return all;
  }

  constexpr size_t size() const { return size_; }
  constexpr const AttrDef* begin() const { return attrs_.data(); }
  constexpr const AttrDef* end() const { return begin() + size_; }
  // Null when the op has no attribute of that name.
  const AttrDef* find(std::string_view name) const;

 private:
  // No op has more. A longer list does not compile.
  static constexpr size_t kMaxAttrs = 10;

  std::array<AttrDef, kMaxAttrs> attrs_ = {};
  size_t size_ = 0;
};

// What an output must be, of ops that cannot infer it.
inline constexpr AttrList kDeclaredAttrs{{"dtype", AttrKind::DType}, {"shape", AttrKind::Shape}};

}  // namespace cohort::internal
