#include <gtest/gtest.h>

#include <memory>
#include <variant>

#include "cohort/device.h"
#include "cohort/graph.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using Scope = std::variant<std::nullptr_t, std::string, DeviceFunction>;

struct Row {
  std::vector<Scope> scopes;  // outermost first
  std::string expected;
};

// The device of a node that is made inside of the scopes.
std::string device_within(const std::vector<Scope>& scopes) {
  Graph graph;
  const auto building = graph.as_default();
  std::vector<std::unique_ptr<DeviceScope>> open;
  for (const Scope& scope : scopes) {
    open.push_back(
        std::visit([](const auto& entry) { return std::make_unique<DeviceScope>(entry); }, scope));
  }
  placeholder(kFloat32);
  while (!open.empty()) open.pop_back();
  return graph.nodes()[0].device;
}

DeviceFunction always(std::string device) {
  return [device](const DeviceRequest&) { return device; };
}
DeviceFunction fills_in(const std::string& device) {
  return [outer = DeviceName::parse(device)](const DeviceRequest& request) {
    return DeviceName::parse(request.device).filled_from(outer).to_string();
  };
}

TEST(DeviceScopes, SayWhereANodeGoes) {
  const std::string none;
  const std::vector<Row> table = {
      {{}, ""},
      {{"/job:trainer/device:GPU:3", "/task:5"}, "/job:trainer/task:5/device:GPU:3"},
      {{"/job:trainer/task:1", "/job:store"}, "/job:store/task:1"},
      {{"/device:GPU:2", nullptr, "/job:store"}, "/job:store"},
      {{always("/job:x"), "/job:store/task:0"}, "/job:x"},
      {{fills_in("/job:x/task:9"), "/job:store"}, "/job:store/task:9"},
      {{"/device:CPU:4", "/device:CPU:*"}, "/device:CPU:4"},
      {{"/job:a", none, "/task:1"}, "/job:a/task:1"},
      {{"/job:a", nullptr}, ""},
      {{"/job:a", always("/task:3")}, "/job:a/task:3"},
      {{nullptr, always("")}, ""},
  };
  for (const Row& row : table) EXPECT_EQ(device_within(row.scopes), row.expected);
}

TEST(DeviceScopes, GiveFunctionsTheNodeAndWhatWasAskedFor) {
  DeviceRequest seen;
  const DeviceFunction look = [&seen](const DeviceRequest& request) {
    seen = request;
    return request.device;
  };
  EXPECT_EQ(device_within({"/job:a", look, "/task:1"}), "/job:a/task:1");
  EXPECT_EQ(seen.name, "Placeholder");
  EXPECT_EQ(seen.op, "Placeholder");
  EXPECT_EQ(seen.device, "/task:1");
}

TEST(DeviceScopes, RefuseWhatIsNoDeviceName) {
  EXPECT_ERROR(Code::InvalidArgument, "'/job:1x'", device_within({"/job:1x"}));
  EXPECT_ERROR(Code::InvalidArgument, "'/job:1x'", device_within({always("/job:1x")}));
}

}  // namespace
}  // namespace cohort
