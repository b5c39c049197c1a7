#pragma once

// The durations and clocks of the standard library. <chrono> has them, too, beside calendars, time
// zones and stream formats that take each program 0.1 s to compile. <mutex> names durations and
// clocks in its own interface and leaves out the rest. Not for inclusion by users.

#include <mutex>  // IWYU pragma: export
