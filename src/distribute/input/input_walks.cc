#include <algorithm>
#include <iterator>

#include "base/raise.h"
#include "base/worker_outcomes.h"
#include "cohort/strategy_extended.h"
#include "data/element_access.h"
#include "data/iteration.h"
#include "data/iterator.h"
#include "distribute/input/distributed_input.h"
#include "transport/message_codec.h"

namespace cohort::internal {

void list_fields(auto& fields, MaybeConst<data::internal::CommonCache> auto& cache) {
  fields(cache.stages, cache.start);
}

namespace {

using data::AutoShardPolicy;
using data::Dataset;

// What one worker brings when all begin a walk.
struct WorkerTerms {
  Status failure = {};       // why this worker cannot
  InputTerms terms = {};     // as if it were alone; the chief's plan, seeds and caches count
  bool pass_is_set = false;  // the pass is not simply the next one
  AutoShardPolicy policy = AutoShardPolicy::Auto;  // that the dataset's options ask for
  int64_t rows = -1;                               // of each batch, where that is static
  std::vector<std::string> stages = {};            // of the dataset that workers share, described
  static void list_fields(auto& fields, auto& m) {
    const auto policy = [](auto& of) {
      return between(of, AutoShardPolicy::Off, AutoShardPolicy::Hint);
    };
    fields(m.failure, m.terms.pass, m.pass_is_set, policy(m.terms.plan.policy),
           m.terms.plan.reads_files, m.terms.endless, policy(m.policy),
           between(m.rows, -1, INT64_MAX), m.terms.seeds, m.terms.caches, m.stages);
  }
};

int64_t static_rows(const Dataset& dataset) {
  const std::optional<data::ElementSpec> spec = dataset.element_spec();
  if (!spec || spec->tensors().empty()) return -1;
  const Shape shape = spec->tensors()[0].shape;
  if (!shape.has_rank()) return -1;
  return shape.rank() == 0 ? 1 : shape[0];
}

// The terms of all workers, in their order.
std::vector<WorkerTerms> exchange(const DistributedInput& input, const WorkerTerms& own) {
  Message message;
  MessageWriter{message}(own);
  std::vector<WorkerTerms> all;
  for (const std::string& text :
       input.extended->gather_from_workers(message.header, "the start of a walk over the data")) {
    const Message received{.header = text};
    MessageReader reader(received, "what a worker brings to a walk over the data");
    all.push_back(decode_rest<WorkerTerms>(reader));
  }
  return all;
}

// The pipelines of this worker before it takes the chief's seeds.
std::vector<Dataset> divided_pipelines(const InputSource& source,
                                       const data::internal::ShardPlan& plan) {
  if (!source.is_shared) return source.datasets;
  return {data::internal::replica_input(source.datasets[0], source.share, plan)};
}

// `dataset` with at least `depth` elements made in advance.
Dataset read_ahead(const Dataset& dataset, int64_t depth) {
  if (data::internal::DatasetAccess::node(dataset)->read_ahead() >= depth) return dataset;
  return dataset.prefetch(static_cast<int>(depth));
}

void check_failures(const std::vector<WorkerTerms>& all, const Status& own) {
  if (all.size() > 1) throw_local_failure(own);
  throw_if_error(own);
  for (size_t worker = 0; worker < all.size(); ++worker) {
    if (all[worker].failure.ok()) continue;
    raise(Code::Cancelled, "[DistributedIterator] the data of worker {} cannot be distributed: {}",
          worker, all[worker].failure.to_string());
  }
}

std::string pass_of(const WorkerTerms& own) {
  return own.pass_is_set ? fmt::format("pass {}", own.terms.pass) : "the next pass";
}

// A pass that is not set is the chief's next one.
void check_passes(const std::vector<WorkerTerms>& all) {
  const WorkerTerms& chief = all[0];
  for (size_t worker = 1; worker < all.size(); ++worker) {
    const WorkerTerms& other = all[worker];
    const bool same = other.pass_is_set == chief.pass_is_set &&
                      (!chief.pass_is_set || other.terms.pass == chief.terms.pass);
    if (same) continue;
    raise(Code::FailedPrecondition,
          "[DistributedIterator] the workers do not iterate over the data together: worker 0 "
          "begins {}, worker {} begins {}; make the same iterators, from positions of the same "
          "step, in the same order on all workers",
          pass_of(chief), worker, pass_of(other));
  }
}

// The first stage in which two datasets differ, as each has it.
std::pair<std::string, std::string> difference(const WorkerTerms& a, const WorkerTerms& b) {
  const size_t both = std::min(a.stages.size(), b.stages.size());
  for (size_t i = 0; i < both; ++i) {
    if (a.stages[i] != b.stages[i]) return {a.stages[i], b.stages[i]};
  }
  return {fmt::format("{} stages", a.stages.size()), fmt::format("{} stages", b.stages.size())};
}

void check_alike(const std::vector<WorkerTerms>& all) {
  for (size_t worker = 1; worker < all.size(); ++worker) {
    if (all[worker].policy != all[0].policy) {
      raise(Code::InvalidArgument,
            "[DistributedIterator] workers 0 and {} ask for different AutoShardPolicies, {} and "
            "{}; set the same on all workers",
            worker, static_cast<int>(all[0].policy), static_cast<int>(all[worker].policy));
    }
    const bool divided = all[0].terms.plan.policy != AutoShardPolicy::Off;
    if (!divided || all[worker].stages == all[0].stages) continue;
    const auto [here, there] = difference(all[0], all[worker]);
    raise(Code::InvalidArgument,
          "[DistributedIterator] workers 0 and {} distribute different datasets, so elements would "
          "be lost or come twice: '{}' and '{}'; make the same dataset on all workers, or say that "
          "each has its own, by AutoShardPolicy::Off or distribute_datasets_from_function()",
          worker, here, there);
  }
}

// For workers that tell each other numbers only.
InputTerms without_agreement(const InputSource& source, const WorkerTerms& own) {
  InputTerms terms = own.terms;
  terms.endless = false;
  if (!source.is_shared) return terms;
  terms.plan = data::internal::plan_input(source.datasets[0], source.share);
  const Dataset pipeline = divided_pipelines(source, terms.plan)[0];
  if (!data::internal::common_seeds(pipeline).empty()) {
    raise(Code::FailedPrecondition,
          "[DistributedIterator] a stage has a random seed, which the workers of this strategy "
          "cannot exchange; give shuffle() and sample_from() a seed, or implement "
          "CrossWorkerInput::gather_from_workers()");
  }
  terms.caches = data::internal::common_caches(pipeline);
  for (auto& cache : terms.caches) cache.start.clear();  // what is stored may differ
  return terms;
}

// Exchanges the terms of all workers; see InputWalks::agree().
InputTerms agree_on_terms(const DistributedInput& input, const InputSource& source,
                          const WorkerTerms& own) {
  const std::vector<WorkerTerms> all = exchange(input, own);
  check_failures(all, own.failure);
  if (static_cast<int>(all.size()) != input.context.num_input_pipelines()) {
    return without_agreement(source, own);
  }
  check_passes(all);
  if (source.is_shared) check_alike(all);
  const auto all_have = [&](const auto& what) { return std::ranges::all_of(all, what); };
  InputTerms terms = all[0].terms;
  terms.endless = all_have([](const WorkerTerms& each) { return each.terms.endless; });
  const int64_t rows = all[0].rows;
  if (rows >= 0 && all_have([&](const WorkerTerms& each) { return each.rows == rows; })) {
    terms.samples = source.is_shared ? rows : rows * input.context.num_replicas_in_sync();
  }
  return terms;
}

}  // namespace

InputTerms InputWalks::own_terms(std::optional<int64_t> pass) {
  const int64_t next =
      looked_at_ ? looked_at_->pass : data::internal::next_pass(source_.datasets[0]);
  InputTerms terms{.pass = pass.value_or(next)};
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
  const std::lock_guard one_at_a_time(turn_);
  WorkerTerms own{.pass_is_set = pass.has_value()};
  own.failure = capture_status([&] {
    own.terms = own_terms(pass);
    if (!input.several_workers()) return;
    const Dataset& first = source_.datasets[0];
    own.policy = first.options().auto_shard_policy.value_or(AutoShardPolicy::Auto);
    own.rows = static_rows(first);
    if (source_.is_shared) own.stages = stages();
  });
  if (!input.several_workers()) throw_if_error(own.failure);
  const InputTerms terms =
      input.several_workers() ? agree_on_terms(input, source_, own) : own.terms;
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
  const std::lock_guard one_at_a_time(turn_);
  if (looked_at_ && looked_at_->pass == terms.pass && positions == nullptr) {
    return std::exchange(looked_at_, std::nullopt)->walk;
  }
  return begin(terms, positions);
}

std::vector<Dataset> InputWalks::build_alone() {
  const std::lock_guard one_at_a_time(turn_);
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
  const std::lock_guard one_at_a_time(turn_);
  if (spec_) return *spec_;
  if (!is_alone()) {
    raise(Code::FailedPrecondition,
          "[DistributedDataset] a stage of {} runs C++ code, so the element type is unknown until "
          "there is an element, and only all workers together can make the first; take a step "
          "first, call an iterator's element_spec() on all workers, or declare the elements, as "
          "data::generator(f, spec) does",
          source_.datasets[0].to_string());
  }
  const std::optional<data::Element> first = look();
  if (!first) raise_undescribed();
  spec_ = data::internal::with_unknown_rows(data::ElementSpec(*first));
  return *spec_;
}

void InputWalks::learn_spec(const data::ElementSpec& spec) {
  const std::lock_guard one_at_a_time(turn_);
  spec_ = spec;
}

void InputWalks::raise_undescribed() const {
  raise(Code::FailedPrecondition,
        "[DistributedDataset] the element type of {} is unknown: a stage runs C++ code, and the "
        "dataset has no element that shows what the code makes",
        source_.datasets[0].to_string());
}

}  // namespace cohort::internal
