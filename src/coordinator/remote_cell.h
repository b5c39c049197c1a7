#pragma once

#include "cohort/device.h"
#include "cohort/error.h"
#include "ops/remote_resource.h"
#include "ops/variable_cell.h"

namespace cohort::internal {

class ParameterServers;

// What stands in this process for a variable on a parameter server: where it is and what it is
// called there. It never has a value; ops and functions that use it run elsewhere.
class RemoteCell : public VariableCell, public RemoteResource {
 public:
  // `lease` ends with it: then the server may forget the variable.
  RemoteCell(std::string name, DeviceName device, std::shared_ptr<ParameterServers> servers,
             std::shared_ptr<const void> lease);

  const DeviceName& device() const { return device_; }
  std::vector<Tensor> run(const OpDef& op, std::span<const Tensor> inputs,
                          const Attrs& attrs) const override;

 private:
  // The same as a failure of the server that names the variable, and the server by its task.
  Status lost_with_its_server(const Status& why) const;

  const DeviceName device_;
  const std::shared_ptr<ParameterServers> servers_;
  const std::shared_ptr<const void> lease_;
};

// What stands here for a variable of which each worker has one of its own.
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
