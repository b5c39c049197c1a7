#pragma once

#include <functional>
#include <map>
#include <string>

#include "cohort/server.h"

namespace cohort::test {

// What a process holds, by name: "bytes", "descriptors" without those of held_ports, "threads",
// and what a test adds.
using Holdings = std::map<std::string, int64_t>;
Holdings process_holdings();
// How many sessions the server keeps for clients and for other servers. "handles" are these and
// the variables that a strategy has on servers; the resources of a device have no public count.
int64_t session_handles(const Server& server);

// How many bytes all calls together may add.
inline constexpr int64_t kMoreBytes = 400'000;
// Graphs of functions that are gone grow for a while before they are replaced.
inline constexpr int64_t kMoreBytesOfGraphs = 3'000'000;
// What a living thread has freed and keeps in its cache counts as used, up to 0.26 MB of each
// thread, and which threads live and what they freed last changes: 1,920 sessions of 64 threads
// added 0.5 MB, and 256 sessions 0.6 MB.
inline constexpr int64_t kMoreBytesOfThreads = 2'000'000;

// COHORT_CALLS, where it is set, otherwise as given.
int calls(int otherwise);
// How often drive() makes the call for this count.
int all_calls(int count);

// Calls `call` often enough that what is kept for good is there, then `count` times more, and
// expects that `measure` gives what it gave before. `call` gets a number of its own each time.
void drive(const std::string& what, int count, const std::function<Holdings()>& measure,
           const std::function<void(int)>& call, int64_t more_bytes = kMoreBytes);

}  // namespace cohort::test
