#include "cohort/nn_ops.h"

namespace cohort::nn {

Tensor embedding_lookup(const Tensor& table, const Tensor& ids, Site site) {
  return gather(table, ids, 0, site);
}

}  // namespace cohort::nn
