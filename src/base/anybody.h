#pragma once

namespace cohort::internal {

// In ActivityWait::whom in place of a task: whoever puts into a queue or an accumulator what is
// waited for there.
inline constexpr char kAnybody[] = "anybody";

}  // namespace cohort::internal
