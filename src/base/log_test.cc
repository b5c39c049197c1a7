#include "base/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "base/thread.h"

namespace cohort::internal {
namespace {

template <typename Body>
std::string stderr_of(Body&& body) {
  testing::internal::CaptureStderr();
  body();
  return testing::internal::GetCapturedStderr();
}

class Log : public testing::Test {
 protected:
  ~Log() override { set_log_level(LogLevel::Warning); }
};

TEST_F(Log, LineHasTimeLevelThreadAndText) {
  std::string line = stderr_of([] { log_warning("{} of {}", "one", "two"); });
  for (char& c : line) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) c = '0';
  }
  EXPECT_EQ(line, "00:00:00.000 W [main] one of two\n");
}

TEST_F(Log, ShowsWarningsAndErrorsOnlyByDefault) {
  const std::string text = stderr_of([] {
    log_debug("one");
    log_info("two");
    log_warning("three");
    log_error("four");
  });
  EXPECT_EQ(text.find("one"), std::string::npos);
  EXPECT_EQ(text.find("two"), std::string::npos);
  EXPECT_NE(text.find("W [main] three"), std::string::npos);
  EXPECT_NE(text.find("E [main] four"), std::string::npos);
}

TEST_F(Log, LevelDecidesWhatIsShown) {
  constexpr const char* kNames[] = {"debug", "info", "warning", "error", "off"};
  for (int level = 0; level < 5; ++level) {
    set_log_level(kNames[level]);
    const std::string text = stderr_of([] {
      log_debug("text");
      log_info("text");
      log_warning("text");
      log_error("text");
    });
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4 - level) << kNames[level];
  }
  EXPECT_FALSE(log_enabled(LogLevel::Off));
}

TEST_F(Log, UnknownLevelIsOneWarningThatNamesTheLevels) {
  const std::string text = stderr_of([] { set_log_level("loud"); });
  EXPECT_NE(text.find("COHORT_LOG has 'loud'"), std::string::npos) << text;
  EXPECT_NE(text.find("debug, info, warning, error and off"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_TRUE(log_enabled(LogLevel::Warning));
  EXPECT_FALSE(log_enabled(LogLevel::Info));
}

TEST_F(Log, ComponentsHaveLevelsOfTheirOwn) {
  set_log_level("error, Trainer=debug,Session=off");
  const std::string text = stderr_of([] {
    log_debug("[Trainer] one");
    log_warning("[Collective] two");
    log_error("[Collective] three");
    log_error("[Session] four");
    log_warning("five");
    log_error("{} six", "[Trainer]");
  });
  for (const char* shown : {"one", "three", "six"}) EXPECT_NE(text.find(shown), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
}

TEST_F(Log, ReadsTheGoodPartsOfAListOfLevels) {
  const std::string text = stderr_of([] {
    set_log_level("Trainer=loud,Session=info");
    log_info("[Session] shown");
    log_info("[Trainer] not shown");
  });
  EXPECT_NE(text.find("COHORT_LOG has 'Trainer=loud'"), std::string::npos) << text;
  EXPECT_NE(text.find("[Session] shown"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
}

TEST_F(Log, MessageIsOneLineWhateverItHolds) {
  const std::string text = stderr_of([] { log_error("{}", "a\nb {} %v"); });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_NE(text.find("a\\nb {} %v"), std::string::npos) << text;
}

TEST_F(Log, NamesTheThread) {
  const std::string text =
      stderr_of([] { Thread("reader", [](const auto&) { log_error("here"); }).join(); });
  EXPECT_NE(text.find("E [reader] here"), std::string::npos) << text;
}

TEST_F(Log, WritesOneOfManyLinesThatStrangersCause) {
  RareLog rare;
  const std::string text = stderr_of([&] {
    for (int i = 0; i < 1000; ++i) rare.warning("stranger {}", i);
  });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_NE(text.find("stranger 0"), std::string::npos);
}

}  // namespace
}  // namespace cohort::internal
