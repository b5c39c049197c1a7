#include "train/row_reads.h"

#include <utility>

#include "cohort/nn_layers.h"

namespace cohort {
namespace internal {
namespace {

bool& reads_rows() {
  thread_local bool reading = false;
  return reading;
}

}  // namespace

RowReads::RowReads() : outer_(std::exchange(reads_rows(), true)) {}
RowReads::~RowReads() { reads_rows() = outer_; }
bool RowReads::active() { return reads_rows(); }

}  // namespace internal

Tensor nn::embedding_lookup(const Variable& table, const Tensor& ids, Site site) {
  const internal::RowReads never_cached;
  return embedding_lookup(static_cast<Tensor>(table), ids, site);
}

}  // namespace cohort
