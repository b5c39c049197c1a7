#pragma once

#include <cstdint>
#include <string_view>

namespace cohort {

// A guard, as NameScope: while it lives, state that this thread adds to a graph (variables, queues,
// accumulators) is kept in the container of that name. State of one name in two containers is two
// things; reset() forgets containers one by one. "" is the default container, which has the name of
// the task's job. InvalidArgument for a text that is not a name.
class [[nodiscard]] Container {
 public:
  explicit Container(std::string_view name);
  ~Container();
  Container(const Container&) = delete;
  Container& operator=(const Container&) = delete;
  void close();

 private:
  uint64_t ticket_;
};
inline Container container(std::string_view name) { return Container(name); }

}  // namespace cohort
