#pragma once

#include "coordinator/parameter_servers.h"
#include "train/single_variable.h"

namespace cohort::internal {

// A variable on a parameter server. While a function is traced, uses of it become operations that
// run there; otherwise each is a call to that server (RemoteCell).
class RemoteVariable : public SingleVariable {
 public:
  struct Place {
    std::shared_ptr<ParameterServers> servers;
    DeviceName device;
    std::string unique_name;  // that the server knows it by
  };
  RemoteVariable(const VariableOptions& options, const Shape& shape, DType dtype, Place place);

  std::string device() const override { return place_.device.to_string(); }
  const std::string& unique_name() const { return place_.unique_name; }
  // Expired when nothing here uses the variable any more.
  const std::weak_ptr<const void>& lease() const { return lease_; }
  bool is_initialized() const override;
  std::shared_ptr<VariableImpl> deep_copy() const override;
  std::string to_string() const override;

 private:
  const Place place_;
  std::weak_ptr<const void> lease_;
};

}  // namespace cohort::internal
