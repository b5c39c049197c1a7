#include <cohort/cohort.h>

using namespace cohort;

struct Row {
  Tensor x, y;
};

data::Dataset misuse(const data::Dataset& rows) {
  return rows.map([](const Row& row) { return row.x + row.y; });
}
