#pragma once

#include "cohort/device.h"
#include "ops/dispatch.h"
#include "variables/single_variable.h"

// Variables of this process whose values are on parameter servers or on workers.
namespace cohort::internal {

class ParameterServers;

// The cell of a RemoteVariable: it says where the variable is and what it is called there. The cell
// never has a value; ops and functions that use it run on other tasks.
class RemoteCell : public VariableCell, public RemoteResource {
 public:
  // The cell holds the lease. When the lease ends, the server may forget the variable.
  RemoteCell(std::string name, DeviceName device, std::shared_ptr<ParameterServers> servers,
             std::shared_ptr<const void> lease)
      : VariableCell(std::move(name)),
        device_(std::move(device)),
        servers_(std::move(servers)),
        lease_(std::move(lease)) {}

  const DeviceName& device() const { return device_; }
  std::vector<Tensor> run(const OpDef& op, std::span<const Tensor> inputs,
                          const Attrs& attrs) const override;

 private:
  const DeviceName device_;
  const std::shared_ptr<ParameterServers> servers_;
  const std::shared_ptr<const void> lease_;
};

// A variable on a parameter server. While a function is traced, uses of the variable become
// operations that run there. Otherwise each use is a call to the server (RemoteCell).
class RemoteVariable : public SingleVariable {
 public:
  struct Place {
    std::shared_ptr<ParameterServers> servers;
    DeviceName device;
    std::string unique_name;  // the variable's name on the server
  };
  RemoteVariable(const VariableOptions& options, const Shape& shape, DType dtype, Place place);

  std::string device() const override { return place_.device.to_string(); }
  const std::string& unique_name() const { return place_.unique_name; }
  // Expires when nothing in this process uses the variable any more.
  const std::weak_ptr<const void>& lease() const { return lease_; }
  bool is_initialized() const override;
  std::shared_ptr<VariableImpl> deep_copy() const override;
  std::string to_string() const override;

 private:
  const Place place_;
  std::weak_ptr<const void> lease_;
};

// The cell of a WorkerVariable.
class WorkerCell : public VariableCell {
 public:
  WorkerCell(std::string name, std::string unique_name, Tensor initial_value)
      : VariableCell(std::move(name)),
        unique_name_(std::move(unique_name)),
        initial_value_(std::move(initial_value)) {}

  const std::string& unique_name() const { return unique_name_; }
  const Tensor& initial_value() const { return initial_value_; }

 private:
  const std::string unique_name_;
  const Tensor initial_value_;
};

}  // namespace cohort::internal
