#include "distribute/input_walks.h"

#include "base/raise.h"
#include "data/common_description.h"
#include "data/dummy.h"
#include "data/iterator.h"
#include "data/pass_count.h"
#include "distribute/input_agreement.h"

namespace cohort::internal {

using data::Dataset;
using data::internal::DatasetAccess;

namespace {

std::vector<Dataset> build_pipelines(const InputSource& source, const InputTerms& terms) {
  std::vector<Dataset> pipelines;
  std::span<const uint64_t> seeds = terms.seeds;
  for (Dataset dataset : source.datasets) {
    if (source.share.workers > 1) {
      const size_t count = data::internal::drawn_seeds(dataset).size();
      dataset = data::internal::with_common_seeds(dataset, seeds.first(count));
      seeds = seeds.subspan(count);
    }
    if (source.is_shared) {
      dataset = data::internal::replica_input(dataset, source.share, terms.plan);
    }
    pipelines.push_back(read_ahead(dataset, source.read_ahead));
  }
  return pipelines;
}

}  // namespace

int64_t InputWalks::next_pass() const { return data::internal::next_pass(source_.datasets[0]); }

InputTerms InputWalks::own_terms(std::optional<int64_t> pass) {
  InputTerms terms{.pass = pass.value_or(looked_at_ ? looked_at_->pass : next_pass())};
  terms.endless = common_cardinality(source_.datasets) == data::kInfinite;
  if (pipelines_) {  // what was found out once is not asked again
    terms.plan = pipelines_->terms.plan;
  } else if (source_.is_shared && source_.share.worker == 0) {
    terms.plan = data::internal::plan_input(source_.datasets[0], source_.share);
  }
  if (source_.share.workers == 1) return terms;
  for (const Dataset& dataset : source_.datasets) {
    for (const uint64_t seed : data::internal::drawn_seeds(dataset)) terms.seeds.push_back(seed);
  }
  return terms;
}

InputTerms InputWalks::agree(const DistributedInput& input, std::optional<int64_t> pass) {
  const std::lock_guard lock(mutex_);
  InputTerms terms;
  const Status failure = capture_status([&] { terms = own_terms(pass); });
  if (input.several_workers()) {
    terms = agree_on_terms(input, source_, {failure, terms, pass.has_value()});
  } else {
    throw_if_error(failure);
  }
  data::internal::raise_next_pass(source_.datasets[0], terms.pass + 1);
  return terms;
}

const std::vector<Dataset>& InputWalks::build(const InputTerms& terms) {
  const bool same =
      pipelines_ && pipelines_->terms.plan == terms.plan && pipelines_->terms.seeds == terms.seeds;
  if (!same) {
    pipelines_ = {terms, build_pipelines(source_, terms)};
    looked_at_.reset();
  }
  return pipelines_->all;
}

InputWalk InputWalks::open(const InputTerms& terms, const std::vector<std::string>* positions) {
  const std::lock_guard lock(mutex_);
  const std::vector<Dataset>& pipelines = build(terms);
  if (looked_at_ && looked_at_->pass == terms.pass && positions == nullptr) {
    return std::exchange(looked_at_, std::nullopt)->walk;
  }
  InputWalk walk;
  for (size_t i = 0; i < pipelines.size(); ++i) {
    walk.iterators.push_back(positions != nullptr
                                 ? pipelines[i].iterate((*positions)[i])
                                 : data::internal::iterate_as(pipelines[i], terms.pass));
  }
  return walk;
}

std::vector<Dataset> InputWalks::build_alone() {
  const std::lock_guard lock(mutex_);
  return build(own_terms(std::nullopt));
}

std::optional<data::Element> InputWalks::look() {
  // Before workers have agreed, the part of this one is not known.
  if (!pipelines_) return data::internal::look_at_first(source_.datasets[0]);
  if (!looked_at_) {
    looked_at_ = LookedAt{.pass = next_pass(), .walk = {}};
    for (const Dataset& pipeline : pipelines_->all) {
      looked_at_->walk.iterators.push_back(data::internal::iterate_as(pipeline, looked_at_->pass));
    }
  }
  auto& [iterators, drawn] = looked_at_->walk;
  if (drawn.empty()) drawn.push_back(iterators[0].next_optional());
  return drawn[0];
}

data::ElementSpec InputWalks::element_spec(const DistributedInput& input) {
  if (const auto known = input.static_spec()) return *known;
  {
    const std::lock_guard lock(mutex_);
    if (const auto first = look()) {
      return data::internal::with_unknown_rows(data::ElementSpec(*first));
    }
  }
  if (const auto whole = spec_of_whole()) return *whole;
  raise(Code::FailedPrecondition,
        "[DistributedDataset] the elements of {} cannot be described: a stage runs C++ code that "
        "only an element would tell about, and there is none",
        source_.datasets[0].to_string());
}

std::optional<data::ElementSpec> InputWalks::spec_of_whole() const {
  if (!source_.is_shared) return std::nullopt;
  const auto seen = data::internal::spec_or_probe(source_.datasets[0]);
  if (!seen) return std::nullopt;
  return data::internal::with_unknown_rows(*seen);
}

}  // namespace cohort::internal
