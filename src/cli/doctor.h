#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "cli/run_plan.h"
#include "cohort/credentials.h"

namespace cohort::cli {

enum class Finding { Good, Remark, Bad };
// Told about one thing that was looked at.
using Tell =
    std::function<void(Finding finding, const std::string& about, const std::string& text)>;

// A cluster to look at, and this task in it if it is one.
struct DoctorCluster {
  ClusterSpec cluster = {};
  std::optional<TaskId> self = std::nullopt;
};

// Parts of the examination.
void examine_machine(const Tell& tell);  // cores, thread settings, speed of a matrix product, names
void examine_names(const DoctorCluster& cluster, const Tell& tell);  // hosts and interfaces
void examine_credentials(const DoctorCluster& cluster, const Credentials& credentials,
                         const Tell& tell);
// Dials every other task until it answers or the time is over. When this task's own port is free it
// answers there meanwhile: run by all tasks at once, every pair is tried.
void examine_connections(const DoctorCluster& cluster, const Credentials& credentials,
                         std::chrono::milliseconds limit, const Tell& tell);
// What TF_CONFIG should have been, when names in it are nearly right; nothing when it cannot be
// guessed.
std::optional<std::string> corrected_tf_config(const std::string& text);

struct DoctorOptions {
  std::string cluster = {};  // empty: the environment's
  std::string credentials = {};
  std::chrono::milliseconds limit{10'000};
};
// Prints what was found; 0 when nothing is bad.
int examine(const DoctorOptions& options);

}  // namespace cohort::cli
