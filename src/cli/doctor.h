#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "cohort/credentials.h"
#include "launch/run_layout.h"

namespace cohort::cli {

enum class Finding { Good, Remark, Bad };
// Called for each thing that was examined.
using Report =
    std::function<void(Finding finding, const std::string& about, const std::string& text)>;

// A cluster to examine, and which of its tasks this process is, if any.
struct DoctorCluster {
  ClusterSpec cluster = {};
  std::optional<TaskId> self = std::nullopt;
};

// Parts of the examination.
void examine_machine(const Report& report);  // cores, thread settings, memory, speed
void examine_names(const DoctorCluster& cluster, const Report& report);  // hosts and interfaces
void examine_credentials(const DoctorCluster& cluster, const Credentials& credentials,
                         const Report& report);
// Asks every other task until it answers or the time is over. Meanwhile it answers at the port of
// this task, if the port is free: if all tasks run it at once, every pair is tried.
void examine_connections(const DoctorCluster& cluster, const Credentials& credentials,
                         std::chrono::milliseconds limit, const Report& report);
// TF_CONFIG with misspelt names corrected; nothing if it cannot be guessed.
std::optional<std::string> corrected_tf_config(const std::string& text);

struct DoctorOptions {
  std::string cluster = {};  // empty: the environment's
  std::string credentials = {};
  std::chrono::milliseconds limit{10'000};
};
// Prints the findings. Returns 0 if nothing is bad.
int examine(const DoctorOptions& options);

}  // namespace cohort::cli
