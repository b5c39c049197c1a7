// One fuzz target per text that describes a cluster; the variable COHORT_FUZZ_TARGET chooses.
// Whatever the bytes are, a parser returns or throws an Error that is not Internal.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "chosen_target.h"
#include "cohort/device.h"
#include "cohort/error.h"
#include "cohort/scheduler_resolvers.h"
#include "topology/address.h"
#include "topology/resolver_inputs.h"

namespace cohort::internal {
namespace {

void fuzz_address(std::string_view text) { (void)parse_target(text); }
// What is read prints as a name that means the same.
void fuzz_device_name(std::string_view text) {
  (void)capture_status([&] { (void)DeviceName::parse_any_form(text); });
  (void)capture_status([&] { (void)DeviceName::parse_local(text); });
  const DeviceName name = DeviceName::parse(text);
  if (DeviceName::parse(name.to_string()) != name) std::abort();
}
void fuzz_hostfile(std::string_view text) { (void)parse_hostfile(text, "input"); }
void fuzz_node_list(std::string_view text) { (void)parse_node_list(text); }
void fuzz_task_counts(std::string_view text) { (void)parse_task_counts(text); }
void fuzz_tf_config(std::string_view text) {
  const TFConfig config = parse_tf_config(text);
  if (!(ClusterSpec(config.cluster.as_dict()) == config.cluster)) std::abort();
  (void)config.cluster.to_string();
}

void fuzz_pods(std::string_view text) {
  const KubernetesClusterResolver resolver(
      {.list_pods = [&](const std::string&) { return std::string(text); }});
  (void)resolver.cluster_spec();
}
void fuzz_instances(std::string_view text) { (void)read_instance_page(text, {.url = "input"}); }
// An environment cannot hold a zero.
void fuzz_sagemaker_hosts(std::string_view text) {
  setenv("SM_HOSTS", std::string(text).c_str(), 1);
  setenv("SM_CURRENT_HOST", "algo-1", 1);
  (void)SageMakerClusterResolver().cluster_spec();
}

constexpr std::pair<std::string_view, void (*)(std::string_view)> kTargets[] = {
    {"address", fuzz_address},
    {"device_name", fuzz_device_name},
    {"hostfile", fuzz_hostfile},
    {"instances", fuzz_instances},
    {"node_list", fuzz_node_list},
    {"pods", fuzz_pods},
    {"sagemaker_hosts", fuzz_sagemaker_hosts},
    {"task_counts", fuzz_task_counts},
    {"tf_config", fuzz_tf_config}};

}  // namespace
}  // namespace cohort::internal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return cohort::try_text(cohort::internal::kTargets, data, size);
}
