#include "data/auto_shard.h"

#include <algorithm>

#include "support/datasets.h"

namespace cohort::data {
namespace {

using internal::plan_shards;
using Texts = std::vector<std::string>;

AutoShardPolicy resolve_policy(const Dataset& dataset, AutoShardPolicy policy) {
  return plan_shards(dataset, policy).policy;
}

Dataset auto_shard(const Dataset& dataset, AutoShardPolicy policy, int64_t workers,
                   int64_t worker) {
  return internal::auto_shard(dataset, plan_shards(dataset, policy), workers, worker);
}

// Files "0".."count-1" whose lines are "<file>a" and "<file>b".
class LineFiles {
 public:
  explicit LineFiles(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string name = std::to_string(i);
      paths_.push_back(directory_.file(name, name + "a\n" + name + "b\n"));
    }
  }
  const std::vector<std::string>& paths() const { return paths_; }
  Dataset names() const { return files({directory_.path("*")}); }

 private:
  TemporaryDirectory directory_;
  std::vector<std::string> paths_;
};

TEST(AutoShard, OffKeepsEverything) {
  EXPECT_EQ(numbers(auto_shard(range(4), AutoShardPolicy::Off, 2, 1)), (Numbers{0, 1, 2, 3}));
}

TEST(AutoShard, DataDealsElementsBeforeTrailingPrefetch) {
  const Dataset batches = range(8).batch(2).prefetch(1).options({.threads = 1}).prefetch(2);
  const Dataset share = auto_shard(batches, AutoShardPolicy::Data, 2, 1);
  EXPECT_EQ(rows(share), (Rows{{2, 3}, {6, 7}}));
  EXPECT_EQ(share.to_string(),
            "Range(0, 8, 1) -> Batch(2) -> Shard(2, 1) -> Prefetch(1) -> Options -> Prefetch(2)");
}

TEST(AutoShard, FileDividesTheNamesThatAReaderGets) {
  const LineFiles files(3);
  const Dataset lines =
      text_lines(files.paths()).batch(2).unbatch().map([](Tensor t) { return t; });
  EXPECT_EQ(texts(auto_shard(lines, AutoShardPolicy::File, 2, 0)), (Texts{"0a", "0b", "2a", "2b"}));
  EXPECT_EQ(texts(auto_shard(lines, AutoShardPolicy::File, 2, 1)), (Texts{"1a", "1b"}));
}

TEST(AutoShard, FileMovesAShuffleOfNamesBehindTheDivision) {
  const LineFiles files(6);
  const Dataset lines = text_lines(files.names().shuffle(6));
  std::vector<std::string> all;
  for (const int64_t worker : {0, 1}) {
    const Dataset share = auto_shard(lines, AutoShardPolicy::File, 2, worker);
    EXPECT_EQ(share.to_string(), "TensorSlices -> Shard(2, " + std::to_string(worker) +
                                     ") -> Shuffle(6) -> TextLines");
    std::ranges::copy(texts(share), std::back_inserter(all));
  }
  std::ranges::sort(all);
  EXPECT_EQ(all, texts(text_lines(files.paths())));
}

TEST(AutoShard, FileFindsReadersInFlatMapAndInterleave) {
  const LineFiles files(2);
  const auto open = [](std::string path) { return text_lines(path); };
  EXPECT_EQ(texts(auto_shard(files.names().flat_map(open), AutoShardPolicy::File, 2, 1)),
            (Texts{"1a", "1b"}));
  EXPECT_EQ(texts(auto_shard(files.names().interleave(open), AutoShardPolicy::File, 2, 0)),
            (Texts{"0a", "0b"}));
  const Dataset numbers = range(2).flat_map([](int64_t n) { return range(n); });
  EXPECT_ERROR(Code::NotFound, "FlatMap", auto_shard(numbers, AutoShardPolicy::File, 2, 0));
}

TEST(AutoShard, FileFindsReadersInsideOfTheDatasetsThatFunctionsMake) {
  const LineFiles files(3);
  const auto open = [](std::string path) { return text_lines(path); };
  const auto filtered = [open](std::string path) {
    return from_tensors(Tensor(path)).flat_map(open).filter([](Tensor) { return true; }).batch(2);
  };
  const Dataset nested = files.names().shuffle(3).interleave(filtered).unbatch();
  EXPECT_EQ(resolve_policy(nested, AutoShardPolicy::Auto), AutoShardPolicy::File);
  EXPECT_EQ(texts(auto_shard(nested, AutoShardPolicy::Auto, 3, 1)), (Texts{"1a", "1b"}));
}

TEST(AutoShard, FileFindsMapsThatOpenTheFilesTheyAreGiven) {
  const TemporaryDirectory directory;
  std::vector<std::string> paths;
  for (int64_t i = 0; i < 4; ++i) {
    paths.push_back(directory.path(std::to_string(i)));
    write_npy(paths.back(), Tensor({i, i + 10}));
  }
  int calls = 0;
  const Dataset arrays = files({directory.path("*")}).map([&](std::string path) {
    ++calls;
    return read_npy(path);
  });
  EXPECT_EQ(resolve_policy(arrays.unbatch().batch(2), AutoShardPolicy::Auto),
            AutoShardPolicy::File);
  EXPECT_LE(calls, 1);
  EXPECT_EQ(numbers(auto_shard(arrays.unbatch(), AutoShardPolicy::File, 2, 1)),
            (Numbers{1, 11, 3, 13}));
  const Dataset nested = files({directory.path("*")}).flat_map([](std::string path) {
    return from_tensors(Tensor(path)).map([](std::string name) { return read_npy(name); });
  });
  EXPECT_EQ(resolve_policy(nested, AutoShardPolicy::Auto), AutoShardPolicy::File);
  // A map of what a reader gave is not asked, nor does one that opens nothing count.
  int parsed = 0;
  const Dataset lines = text_lines(files({directory.path("*")})).map([&](std::string line) {
    ++parsed;
    return line;
  });
  EXPECT_EQ(resolve_policy(lines, AutoShardPolicy::Auto), AutoShardPolicy::File);
  EXPECT_EQ(parsed, 0);
  const Dataset words = from_tensor_slices(Tensor({"a", "b"})).map([](std::string s) { return s; });
  EXPECT_EQ(resolve_policy(words, AutoShardPolicy::Auto), AutoShardPolicy::Data);
}

TEST(AutoShard, FileTreatsEachInputOfZipAndConcatenate) {
  const LineFiles files(2);
  const Dataset lines = text_lines(files.paths());
  const Dataset pairs = auto_shard(zip({lines, lines}), AutoShardPolicy::File, 2, 1);
  for (const auto& [a, b] : pairs.as<std::string, std::string>()) EXPECT_EQ(a, b);
  EXPECT_EQ((*pairs.begin())[0].to<std::string>(), "1a");
  EXPECT_EQ(texts(auto_shard(lines.concatenate(lines), AutoShardPolicy::File, 2, 0)),
            (Texts{"0a", "0b", "0a", "0b"}));
  EXPECT_ERROR(Code::NotFound, "Range",
               auto_shard(zip({lines, range(3)}), AutoShardPolicy::File, 2, 0));
}

TEST(AutoShard, FileIsNotFoundWithoutAReader) {
  const LineFiles files(2);
  const Dataset lines = text_lines(files.paths());
  const auto share = [](const Dataset& dataset) {
    return auto_shard(dataset, AutoShardPolicy::File, 2, 0);
  };
  EXPECT_ERROR(Code::NotFound, "Range", share(range(4)));
  EXPECT_ERROR(Code::NotFound, "TensorSlices", share(from_tensor_slices(Tensor({1, 2}))));
  EXPECT_ERROR(Code::NotFound, "Tensors", share(from_tensors(Tensor(1))));
  EXPECT_ERROR(Code::NotFound, "Generator", share(generator([] {
                 return NextFunction([]() -> std::optional<Element> { return std::nullopt; });
               })));
  EXPECT_ERROR(Code::NotFound, "Enumerate", share(lines.enumerate()));
  EXPECT_ERROR(Code::NotFound, "SampleFrom", share(sample_from({lines, lines})));
  EXPECT_EQ(texts(auto_shard(lines, AutoShardPolicy::File, 1, 0)).size(), 4u);
  EXPECT_EQ(numbers(auto_shard(range(2), AutoShardPolicy::File, 1, 0)), (Numbers{0, 1}));
}

// The end of other data, which the function reads, is not the end of this.
TEST(AutoShard, AutoKeepsNoFailureThatLooksLikeTheEndOfData) {
  Iterator none = range(0).iterator();
  const auto expanded = range(2).flat_map([none](int64_t) mutable {
    none.next();
    return range(1);
  });
  EXPECT_ERROR(Code::InvalidArgument, "no more elements",
               plan_shards(expanded, AutoShardPolicy::Auto));
}

TEST(AutoShard, AutoDecidesByStructureOnly) {
  const LineFiles files(1);
  const Dataset lines = text_lines(files.paths());
  EXPECT_EQ(resolve_policy(lines.batch(1), AutoShardPolicy::Auto), AutoShardPolicy::File);
  EXPECT_EQ(resolve_policy(range(4), AutoShardPolicy::Auto), AutoShardPolicy::Data);
  EXPECT_EQ(resolve_policy(range(4), AutoShardPolicy::Off), AutoShardPolicy::Off);
  EXPECT_EQ(numbers(auto_shard(range(5), AutoShardPolicy::Auto, 2, 1)), (Numbers{1, 3}));
  EXPECT_ERROR(Code::InvalidArgument, "only 1 elements",
               texts(auto_shard(lines, AutoShardPolicy::Auto, 2, 0)));
  EXPECT_ERROR(Code::InvalidArgument, "9 is not",
               resolve_policy(lines, static_cast<AutoShardPolicy>(9)));
}

TEST(AutoShard, OneWorkerGetsTheDatasetAsItIs) {
  int calls = 0;
  const Dataset expanded = range(2).flat_map([&](int64_t n) {
    ++calls;
    return range(n);
  });
  for (const auto policy : {AutoShardPolicy::Auto, AutoShardPolicy::File, AutoShardPolicy::Data}) {
    const Dataset with_policy = expanded.options({.auto_shard_policy = policy});
    const internal::ShardPlan plan = internal::plan_input(with_policy, {});
    EXPECT_EQ(internal::auto_shard(expanded, plan, 1, 0).to_string(), expanded.to_string());
  }
  EXPECT_EQ(calls, 0);
}

TEST(AutoShard, HintFillsInMarkedShardsOnly) {
  const Dataset marked = range(12).shard(2, 0).shard(kShardHint, 7).batch(2);
  EXPECT_EQ(rows(auto_shard(marked, AutoShardPolicy::Hint, 3, 1)), (Rows{{2, 8}}));
  EXPECT_EQ(rows(auto_shard(marked, AutoShardPolicy::Hint, 1, 0)).size(), 3u);
  for (const auto policy : {AutoShardPolicy::Off, AutoShardPolicy::Data}) {
    EXPECT_ERROR(Code::FailedPrecondition, "Hint", auto_shard(marked, policy, 2, 0).iterator());
  }
  EXPECT_ERROR(Code::InvalidArgument, "only 6 elements",
               rows(auto_shard(marked, AutoShardPolicy::Hint, 7, 6)));
}

TEST(AutoShard, HintReachesTheDatasetsThatFunctionsMake) {
  const auto marked = [](int64_t x) { return range(10 * x, 10 * x + 4).shard(kShardHint, 0); };
  for (const bool flat : {true, false}) {
    const Dataset both =
        flat ? range(2).flat_map(marked) : range(2).interleave(marked, {.cycle = 1, .parallel = 2});
    EXPECT_EQ(numbers(auto_shard(both, AutoShardPolicy::Hint, 2, 1)), (Numbers{1, 3, 11, 13}));
    EXPECT_ERROR(Code::FailedPrecondition, "Hint", numbers(both));
  }
  const Dataset nested = range(1).flat_map([marked](int64_t) { return range(2).flat_map(marked); });
  EXPECT_EQ(numbers(auto_shard(nested, AutoShardPolicy::Hint, 4, 3)), (Numbers{3, 13}));
}

TEST(AutoShard, HintInsideOfFunctionsTravels) {
  const DatasetFunction marked = register_dataset_function(
      "auto_shard_test.marked", [](int64_t x) { return range(x, x + 4).shard(kShardHint, 0); });
  const Dataset share = auto_shard(range(1).flat_map(marked), AutoShardPolicy::Hint, 2, 1);
  EXPECT_EQ(numbers(Dataset::deserialize(share.serialize())), (Numbers{1, 3}));
}

TEST(AutoShard, TooFewElementsIsAnErrorOnEveryWorker) {
  for (int64_t worker = 0; worker < 4; ++worker) {
    const Dataset share = auto_shard(range(3), AutoShardPolicy::Data, 4, worker);
    Iterator it = share.iterator();
    EXPECT_ERROR(Code::InvalidArgument, "only 3 elements (files or batches) for 4", it.next());
    EXPECT_FALSE(it.next_optional().has_value());
    EXPECT_EQ(numbers(auto_shard(range(0), AutoShardPolicy::Data, 4, worker)), Numbers{});
  }
  EXPECT_ERROR(Code::InvalidArgument, "the worker must be in [0, 4), got 4",
               auto_shard(range(3), AutoShardPolicy::Data, 4, 4));
}

TEST(AutoShard, AnElementThatFailsKeepsTheDivision) {
  const Dataset all = range(6).map([](int64_t n) {
    if (n == 0) throw Error(Code::DataLoss, "zero is bad");
    return n;
  });
  Iterator it = auto_shard(all, AutoShardPolicy::Data, 3, 1).iterator();
  EXPECT_ERROR(Code::DataLoss, "element 0", it.next());
  const std::string position = it.save();
  EXPECT_EQ(it.next().to<int>(), 1);
  EXPECT_EQ(it.next().to<int>(), 4);
  Iterator again = auto_shard(all, AutoShardPolicy::Data, 3, 1).iterator(position);
  EXPECT_EQ(again.next().to<int>(), 1);
}

TEST(AutoShard, AutoSaysOnceForAPipelineThatElementsAreDivided) {
  const Dataset numbers = range(4711).batch(3);
  testing::internal::CaptureStderr();
  for (int epoch = 0; epoch < 3; ++epoch) internal::plan_input(numbers, {.workers = 2});
  internal::plan_input(numbers.options({.auto_shard_policy = AutoShardPolicy::Data}),
                       {.workers = 2});
  const std::string said = testing::internal::GetCapturedStderr();
  const size_t first = said.find("every worker reads everything");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("every worker reads everything", first + 1), std::string::npos) << said;
}

}  // namespace
}  // namespace cohort::data
