// What threads make ahead, and how much may be held.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "support/datasets.h"

namespace cohort::data {
namespace {

TEST(Prefetch, HandsOnEverythingInOrder) {
  for (const IntOrAutotune depth :
       {kAutotune, IntOrAutotune(0), IntOrAutotune(1), IntOrAutotune(4)}) {
    EXPECT_EQ(numbers(range(50).prefetch(depth)), numbers(range(50)));
  }
  EXPECT_ERROR(Code::InvalidArgument, "depth", range(1).prefetch(-2));
}

void work_for(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(Prefetch, StartsAThreadOnceElementsAreSlowToMake) {
  const auto consumer = std::this_thread::get_id();
  std::atomic<bool> ahead = false;
  const auto slow = range(10'000).map([&](int64_t x) {
    if (std::this_thread::get_id() != consumer) ahead = true;
    work_for(std::chrono::microseconds(200));
    return x;
  });
  int64_t expected = 0;
  for (const Element& element : slow.prefetch()) {
    EXPECT_EQ(element.to<int64_t>(), expected++);
    if (ahead) break;
    work_for(std::chrono::microseconds(200));
  }
  EXPECT_TRUE(ahead);
}

TEST(Prefetch, NeedsNoThreadForElementsThatAreThere) {
  const auto consumer = std::this_thread::get_id();
  std::atomic<int> elsewhere = 0;
  const auto quick = range(2000).map([&](int64_t x) {
    if (std::this_thread::get_id() != consumer) ++elsewhere;
    return x;
  });
  EXPECT_EQ(numbers(quick.prefetch()).size(), 2000u);
  EXPECT_LT(elsewhere, 2000);  // a busy machine may make some look slow
}

TEST(Iterator, StopsItsThreadsWhenItIsDestroyed) {
  // Endless stages under threads: destruction must not wait for an element.
  const auto endless = range(10).repeat().filter([](int64_t) { return false; });
  { Iterator it = endless.prefetch(2).prefetch(2).iterator(); }
  Iterator busy =
      range(10).repeat().map([](Tensor x) { return x; }, {.parallel = 3}).prefetch().iterator();
  busy.next();
}

TEST(Iterator, UnorderedMapGivesAllElements) {
  Numbers all =
      numbers(range(100).map([](Tensor x) { return x; }, {.parallel = 4, .deterministic = false}));
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, numbers(range(100)));
}

// Scalars that know how many of them exist.
class Counted {
 public:
  Tensor make() {
    const int64_t now = ++now_;
    int64_t before = most_;
    while (before < now && !most_.compare_exchange_weak(before, now)) {
    }
    return Tensor::from_memory(&kValue, kFloat32, Shape{}, [this] { --now_; });
  }
  int64_t most() const { return most_; }

 private:
  static constexpr float kValue = 1;
  std::atomic<int64_t> now_ = 0;
  std::atomic<int64_t> most_ = 0;
};

TEST(Stages, HoldNoMoreElementsThanTheySay) {
  // Each holds its own, one is on its way in, and the consumer has one, or two while it moves on.
  constexpr int64_t kElsewhere = 3;
  struct Case {
    std::string stage;
    std::function<Dataset(const Dataset&)> add;
    int64_t most;
  };
  const std::vector<Case> cases = {
      {"shuffle", [](const Dataset& in) { return in.shuffle(10); }, 10},
      {"prefetch", [](const Dataset& in) { return in.prefetch(5); }, 5},
      {"automatic prefetch", [](const Dataset& in) { return in.prefetch(); }, 256},
      {"both", [](const Dataset& in) { return in.shuffle(10).prefetch(5); }, 10 + 5 + 1},
      {"parallel map",
       [](const Dataset& in) { return in.map([](Tensor x) { return x; }, {.parallel = 3}); },
       2 * 3 + 3},
      {"batch", [](const Dataset& in) { return in.batch(7); }, 7},
      {"window", [](const Dataset& in) { return in.window(4, {.shift = 1}); }, 4 + 4},
  };
  for (const Case& one : cases) {
    Counted counted;
    const Dataset source = range(400).map([&](Tensor) { return counted.make(); });
    for (const Element& element : one.add(source)) EXPECT_GE(element.size(), 1u);
    EXPECT_LE(counted.most(), one.most + kElsewhere) << one.stage;
  }
}

}  // namespace
}  // namespace cohort::data
