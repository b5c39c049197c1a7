#include <cohort/cohort.h>

using namespace cohort;

data::Dataset misuse(const data::Dataset& rows) {
  return rows.map([](const auto& row) -> Tensor requires std::same_as<decltype(row), const int&> {
    return Tensor(row);
  });
}
