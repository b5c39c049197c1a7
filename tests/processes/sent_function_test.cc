// A function that is traced here, and run by another process.

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cohort/cohort.h"
#include "cohort/dataset.h"

namespace cohort {
namespace {

class SentFunction : public ::testing::Test {
 protected:
  SentFunction() {
    std::string pattern = ::testing::TempDir() + "/cohort_sent_XXXXXX";
    directory_ = mkdtemp(pattern.data());
  }
  ~SentFunction() override { std::filesystem::remove_all(directory_); }

  // What the worker prints when it gets these bytes.
  std::string worker_prints(const std::string& function, const std::string& dataset) {
    write("function", function);
    write("dataset", dataset);
    const std::string command = std::string(FUNCTION_WORKER) + " '" +
                                (directory_ / "function").string() + "' '" +
                                (directory_ / "dataset").string() + "'";
    FILE* pipe = popen(command.c_str(), "r");
    std::string printed;
    std::array<char, 256> part;
    while (fgets(part.data(), part.size(), pipe) != nullptr) printed += part.data();
    EXPECT_EQ(pclose(pipe), 0);
    return printed;
  }

  static data::Dataset dataset() { return data::from_tensor_slices(Tensor({1.f, 1.f, 1.f})); }

  // The step of a parameter server's worker; a strategy's run() will stand around the replica.
  static std::string step() {
    Variable v(0.f, {.name = "v"});
    const auto replica = [&](Tensor x) {
      v.assign_add(x);
      return v.read_value();
    };
    return function([&](Iterator it) { return replica(it.next()); }, {.name = "step"})
        .serialize(dataset().iterator());
  }

 private:
  void write(const char* name, const std::string& bytes) {
    std::ofstream(directory_ / name, std::ios::binary) << bytes;
  }

  std::filesystem::path directory_;
};

void expect_prints(const std::string& printed, std::string_view fragment) {
  EXPECT_NE(printed.find(fragment), std::string::npos) << printed;
}

TEST_F(SentFunction, ReadsTheWorkersIteratorAndUpdatesItsVariable) {
  const std::string printed = worker_prints(step(), dataset().serialize());
  EXPECT_TRUE(
      printed.starts_with("Tensor(1., shape=(), dtype=float32)\n"
                          "Tensor(2., shape=(), dtype=float32)\n"
                          "Tensor(3., shape=(), dtype=float32)\n"))
      << printed;
  expect_prints(printed, "OUT_OF_RANGE: [IteratorNext] iterator 'iterator_0' has no more elements");
  expect_prints(printed, "sent_function_test.cc:");  // where next() was called
}

TEST_F(SentFunction, IsRefusedWhenCutOffOrDamaged) {
  const std::string whole = step();
  const std::string data = dataset().serialize();
  expect_prints(worker_prints(whole.substr(0, whole.size() / 2), data),
                "INVALID_ARGUMENT: [Graph] the bytes are not a serialized graph, or are damaged");
  expect_prints(worker_prints(whole, data.substr(0, data.size() / 2)),
                "INVALID_ARGUMENT: [Dataset] these");
  std::string damaged = whole;
  damaged.replace(damaged.find("AssignAddVariable"), 6, "Delete");
  expect_prints(worker_prints(damaged, data), "INVALID_ARGUMENT: [Graph] function 'step'");
}

TEST_F(SentFunction, IsRefusedByAnIteratorOverOtherElements) {
  expect_prints(
      worker_prints(step(), data::range(3).serialize()),
      "INVALID_ARGUMENT: [IteratorNext] iterator 'iterator_0' gives Tensor of (int64 ()), "
      "but the op was made for Tensor of (float32 ())");
}

}  // namespace
}  // namespace cohort
