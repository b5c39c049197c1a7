#include "distribute/input_walks.h"

#include <algorithm>
#include <iterator>

#include "base/raise.h"
#include "data/dummy.h"
#include "data/iteration.h"
#include "data/iterator.h"
#include "distribute/input_agreement.h"

namespace cohort::internal {

using data::Dataset;

std::vector<Dataset> divided_pipelines(const InputSource& source,
                                       const data::internal::ShardPlan& plan) {
  if (!source.is_shared) return source.datasets;
  return {data::internal::replica_input(source.datasets[0], source.share, plan)};
}

int64_t InputWalks::next_pass() const { return data::internal::next_pass(source_.datasets[0]); }

InputTerms InputWalks::own_terms(std::optional<int64_t> pass) {
  InputTerms terms{.pass = pass.value_or(looked_at_ ? looked_at_->pass : next_pass())};
  terms.endless = common_cardinality(source_.datasets) == data::kInfinite;
  if (pipelines_) {  // what was found out once is not asked again
    terms.plan = pipelines_->terms.plan;
  } else if (source_.is_shared && source_.share.worker == 0) {
    terms.plan = data::internal::plan_input(source_.datasets[0], source_.share);
  }
  if (source_.share.worker != 0 || !has_peers()) return terms;
  terms.seeds = pipelines_
                    ? pipelines_->terms.seeds
                    : data::internal::common_seeds(divided_pipelines(source_, terms.plan)[0]);
  terms.caches = data::internal::common_caches(build(terms)[0]);
  return terms;
}

const std::vector<std::string>& InputWalks::stages() {
  if (stages_) return *stages_;
  std::vector<std::string> stages;
  for (const Dataset& dataset : source_.datasets) {
    std::ranges::copy(data::internal::describe_stages(dataset), std::back_inserter(stages));
  }
  return stages_.emplace(std::move(stages));
}

InputTerms InputWalks::agree(const DistributedInput& input, std::optional<int64_t> pass) {
  const std::lock_guard lock(mutex_);
  OwnTerms own{.pass_is_set = pass.has_value()};
  own.failure = capture_status([&] {
    own.terms = own_terms(pass);
    if (input.several_workers() && source_.is_shared) own.stages = stages();
  });
  InputTerms terms = own.terms;
  if (input.several_workers()) {
    terms = agree_on_terms(input, source_, own);
  } else {
    throw_if_error(own.failure);
  }
  include_pass(terms.pass);
  return terms;
}

void InputWalks::include_pass(int64_t number) {
  data::internal::raise_next_pass(source_.datasets[0], number + 1);
}

const std::vector<Dataset>& InputWalks::build(const InputTerms& terms) {
  const bool same =
      pipelines_ && pipelines_->terms.plan == terms.plan && pipelines_->terms.seeds == terms.seeds;
  if (same) return pipelines_->all;
  std::vector<Dataset> all = divided_pipelines(source_, terms.plan);
  for (Dataset& pipeline : all) {
    if (has_peers()) pipeline = data::internal::with_common_seeds(pipeline, terms.seeds);
    pipeline = read_ahead(pipeline, source_.read_ahead);
  }
  looked_at_.reset();
  pipelines_ = {terms, std::move(all)};
  return pipelines_->all;
}

InputWalk InputWalks::begin(const InputTerms& terms, const std::vector<std::string>* positions) {
  const std::vector<Dataset>& pipelines = build(terms);
  InputWalk walk;
  for (size_t i = 0; i < pipelines.size(); ++i) {
    walk.iterators.push_back(data::internal::iterate_as(
        pipelines[i], terms.pass, data::internal::cached_passes(pipelines[i], terms.caches),
        positions != nullptr ? &(*positions)[i] : nullptr));
  }
  return walk;
}

InputWalk InputWalks::open(const InputTerms& terms, const std::vector<std::string>* positions) {
  const std::lock_guard lock(mutex_);
  if (looked_at_ && looked_at_->pass == terms.pass && positions == nullptr) {
    return std::exchange(looked_at_, std::nullopt)->walk;
  }
  return begin(terms, positions);
}

std::vector<Dataset> InputWalks::build_alone() {
  const std::lock_guard lock(mutex_);
  return build(own_terms(std::nullopt));
}

std::optional<data::Element> InputWalks::look() {
  if (!looked_at_) {
    const InputTerms terms = own_terms(std::nullopt);
    looked_at_ = LookedAt{.pass = terms.pass, .walk = begin(terms, nullptr)};
  }
  auto& [iterators, drawn] = looked_at_->walk;
  if (drawn.empty()) drawn.push_back(iterators[0].next_optional());
  return drawn[0];
}

data::ElementSpec InputWalks::element_spec(const DistributedInput& input) {
  if (const auto known = input.static_spec()) return *known;
  const std::lock_guard lock(mutex_);
  if (spec_) return *spec_;
  if (!is_alone()) {
    raise(
        Code::FailedPrecondition,
        "[DistributedDataset] a stage of {} runs C++ code, so that only an element tells what the "
        "elements are, and only all workers together can begin to make some; take a step first, "
        "call an iterator's element_spec() on all workers, or declare the elements, as "
        "data::generator(f, spec) does",
        source_.datasets[0].to_string());
  }
  const std::optional<data::Element> first = look();
  if (!first) raise_undescribed();
  spec_ = data::internal::with_unknown_rows(data::ElementSpec(*first));
  return *spec_;
}

void InputWalks::learn_spec(const data::ElementSpec& spec) {
  const std::lock_guard lock(mutex_);
  spec_ = spec;
}

void InputWalks::raise_undescribed() const {
  raise(Code::FailedPrecondition,
        "[DistributedDataset] the elements of {} cannot be described: a stage runs C++ code that "
        "only an element would tell about, and there is none",
        source_.datasets[0].to_string());
}

}  // namespace cohort::internal
