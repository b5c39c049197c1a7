#include "distribute/input_agreement.h"

#include <algorithm>

#include "base/raise.h"
#include "base/worker_texts.h"
#include "data/state.h"

namespace cohort::internal {
namespace {

using data::AutoShardPolicy;
using data::Dataset;

// The terms of one worker as they travel.
struct Letter {
  OwnTerms own = {};
  int64_t policy = 0;  // that the dataset's options ask for
  int64_t rows = -1;   // of each batch, where that is static
};

int64_t static_rows(const Dataset& dataset) {
  const std::optional<data::ElementSpec> spec = dataset.element_spec();
  if (!spec || spec->tensors().empty()) return -1;
  const Shape shape = spec->tensors()[0].shape;
  if (!shape.has_rank()) return -1;
  return shape.rank() == 0 ? 1 : shape[0];
}

Letter letter_of(const InputSource& source, const OwnTerms& own) {
  Letter letter{.own = own};
  const Status failure = capture_status([&] {
    const Dataset& first = source.datasets[0];
    letter.policy =
        static_cast<int64_t>(first.options().auto_shard_policy.value_or(AutoShardPolicy::Auto));
    letter.rows = static_rows(first);
  });
  if (own.failure.ok()) letter.own.failure = failure;
  return letter;
}

std::string written(const Letter& letter) {
  const InputTerms& terms = letter.own.terms;
  data::internal::StateWriter out;
  out.stage("InputTerms");
  out.status(letter.own.failure);
  out.integer(terms.pass);
  out.flag(letter.own.pass_is_set);
  out.integer(static_cast<int64_t>(terms.plan.policy));
  out.text(terms.plan.reads_files);
  out.flag(terms.endless);
  out.integer(letter.policy);
  out.integer(letter.rows);
  out.integer(static_cast<int64_t>(terms.seeds.size()));
  for (const uint64_t seed : terms.seeds) out.integer(static_cast<int64_t>(seed));
  out.integer(static_cast<int64_t>(terms.caches.size()));
  for (const data::internal::CommonCache& cache : terms.caches) {
    out.text(cache.stages);
    out.text(cache.start);
  }
  out.integer(static_cast<int64_t>(letter.own.stages.size()));
  for (const std::string& stage : letter.own.stages) out.text(stage);
  return sealed(out);
}

Letter read(const std::string& text) {
  data::internal::StateReader in(data::internal::unsealed(text));
  Letter letter;
  InputTerms& terms = letter.own.terms;
  in.stage("InputTerms");
  letter.own.failure = in.status();
  terms.pass = in.integer();
  letter.own.pass_is_set = in.flag();
  terms.plan.policy = static_cast<AutoShardPolicy>(in.integer(-1, 3));
  terms.plan.reads_files = in.text();
  terms.endless = in.flag();
  letter.policy = in.integer();
  letter.rows = in.integer();
  for (int64_t left = in.integer(0, INT64_MAX); left > 0; --left) {
    terms.seeds.push_back(static_cast<uint64_t>(in.integer()));
  }
  for (int64_t left = in.integer(0, INT64_MAX); left > 0; --left) {
    data::internal::CommonCache& cache = terms.caches.emplace_back();
    cache.stages = in.text();
    cache.start = in.text();
  }
  for (int64_t left = in.integer(0, INT64_MAX); left > 0; --left) {
    letter.own.stages.push_back(in.text());
  }
  return letter;
}

void check_failures(const std::vector<Letter>& all, const Status& own) {
  if (all.size() > 1) throw_own_failure(own);
  throw_if_error(own);
  for (size_t worker = 0; worker < all.size(); ++worker) {
    if (all[worker].own.failure.ok()) continue;
    raise(Code::Cancelled, "[DistributedIterator] the data of worker {} cannot be distributed: {}",
          worker, all[worker].own.failure.to_string());
  }
}

std::string pass_of(const OwnTerms& own) {
  return own.pass_is_set ? fmt::format("pass {}", own.terms.pass) : "the next pass";
}

// A pass that is not set is the chief's next one.
void check_passes(const std::vector<Letter>& all) {
  const OwnTerms& chief = all[0].own;
  for (size_t worker = 1; worker < all.size(); ++worker) {
    const OwnTerms& other = all[worker].own;
    const bool same = other.pass_is_set == chief.pass_is_set &&
                      (!chief.pass_is_set || other.terms.pass == chief.terms.pass);
    if (same) continue;
    raise(Code::FailedPrecondition,
          "[DistributedIterator] the workers do not walk over the data together: worker 0 begins "
          "{}, worker {} {}; make the same iterators, from positions of the same time, in the same "
          "order on all workers",
          pass_of(chief), worker, pass_of(other));
  }
}

// The first stage in which two datasets differ, as each has it.
std::pair<std::string, std::string> difference(const OwnTerms& a, const OwnTerms& b) {
  const size_t both = std::min(a.stages.size(), b.stages.size());
  for (size_t i = 0; i < both; ++i) {
    if (a.stages[i] != b.stages[i]) return {a.stages[i], b.stages[i]};
  }
  return {fmt::format("{} stages", a.stages.size()), fmt::format("{} stages", b.stages.size())};
}

void check_alike(const std::vector<Letter>& all) {
  for (size_t worker = 1; worker < all.size(); ++worker) {
    if (all[worker].policy != all[0].policy) {
      raise(Code::InvalidArgument,
            "[DistributedIterator] workers 0 and {} ask for different AutoShardPolicies, {} and "
            "{}; set the same on all workers",
            worker, all[0].policy, all[worker].policy);
    }
    const bool divided = all[0].own.terms.plan.policy != AutoShardPolicy::Off;
    if (!divided || all[worker].own.stages == all[0].own.stages) continue;
    const auto [here, there] = difference(all[0].own, all[worker].own);
    raise(Code::InvalidArgument,
          "[DistributedIterator] workers 0 and {} distribute different datasets, of which elements "
          "would be lost or come twice: '{}' and '{}'; make the same dataset on all workers, or "
          "say that each has its own, by AutoShardPolicy::Off or "
          "distribute_datasets_from_function()",
          worker, here, there);
  }
}

// For workers that tell each other numbers only.
InputTerms without_agreement(const InputSource& source, const OwnTerms& own) {
  InputTerms terms = own.terms;
  terms.endless = false;
  if (!source.is_shared) return terms;
  terms.plan = data::internal::plan_input(source.datasets[0], source.share);
  const Dataset pipeline = divided_pipelines(source, terms.plan)[0];
  if (!data::internal::common_seeds(pipeline).empty()) {
    raise(Code::FailedPrecondition,
          "[DistributedIterator] a stage has a random seed, which the workers of this strategy "
          "cannot tell each other; give shuffle() and sample_from() a seed, or implement "
          "StrategyExtended::gather_from_workers()");
  }
  terms.caches = data::internal::common_caches(pipeline);
  for (auto& cache : terms.caches) cache.start.clear();  // what is stored may differ
  return terms;
}

}  // namespace

InputTerms agree_on_terms(const DistributedInput& input, const InputSource& source,
                          const OwnTerms& own) {
  const Letter here = letter_of(source, own);
  std::vector<Letter> all;
  for (const std::string& text :
       input.gather_from_workers(written(here), "the start of a walk over the data")) {
    all.push_back(read(text));
  }
  check_failures(all, here.own.failure);
  if (static_cast<int>(all.size()) != input.context.num_input_pipelines()) {
    return without_agreement(source, own);
  }
  check_passes(all);
  if (source.is_shared) check_alike(all);
  const auto all_have = [&](const auto& what) { return std::ranges::all_of(all, what); };
  InputTerms terms = all[0].own.terms;
  terms.endless = all_have([](const Letter& letter) { return letter.own.terms.endless; });
  const int64_t rows = all[0].rows;
  if (rows >= 0 && all_have([&](const Letter& letter) { return letter.rows == rows; })) {
    terms.samples = source.is_shared ? rows : rows * input.context.num_replicas_in_sync();
  }
  return terms;
}

}  // namespace cohort::internal
