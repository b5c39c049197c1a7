#include <gtest/gtest.h>

#include "cli/command.h"

namespace cohort::cli {
namespace {

TEST(Doctor, GuessesWhatATfConfigWasMeantToBe) {
  EXPECT_EQ(corrected_tf_config(R"({"cluster":{"workers":"h:1"}})"),
            R"({"cluster":{"worker":["h:1"]}})");
  EXPECT_FALSE(corrected_tf_config(R"({"cluster":{"worker":["h:1"]}})"));
  EXPECT_FALSE(corrected_tf_config("{"));
}

}  // namespace
}  // namespace cohort::cli
