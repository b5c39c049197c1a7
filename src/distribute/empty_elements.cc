// What replicas without data get.

#include "base/raise.h"
#include "data/dummy.h"
#include "data/state.h"
#include "distribute/input_iterator.h"

namespace cohort::internal {

using data::Element;

const Element& DistributedInputIterator::empty_element() {
  if (empty_) return *empty_;
  if (!spec_) {
    raise(Code::FailedPrecondition,
          "[DistributedIterator] this worker has had no element that would show what empty ones "
          "look like");
  }
  empty_ = data::internal::dummy_element(*spec_);
  return *empty_;
}

bool DistributedInputIterator::lacks_empty_element() {
  if (!input_->several_workers() || !walk_ || is_complete()) return false;
  return !capture_status([this] { empty_element(); }).ok();
}

void DistributedInputIterator::learn_empty_element() {
  data::internal::StateWriter own;
  const bool known = capture_status([&] { own.element(empty_element()); }).ok();
  const std::vector<std::string> all =
      input_->gather_from_workers(known ? sealed(own) : std::string(), "an empty element");
  const bool of_all = static_cast<int>(all.size()) == input_->context.num_input_pipelines();
  for (size_t worker = 0; of_all && worker < all.size(); ++worker) {
    if (all[worker].empty()) continue;
    data::internal::StateReader told(data::internal::unsealed(all[worker]));
    if (!empty_) empty_ = told.element();
    return;
  }
  raise(Code::FailedPrecondition,
        "[DistributedIterator] a worker has no data, and nobody tells it what elements look like: "
        "a stage of {} runs C++ code that only an element would tell about; give every worker at "
        "least one element",
        input_->pipelines[0].to_string());
}

}  // namespace cohort::internal
