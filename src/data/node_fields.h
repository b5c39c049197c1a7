#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "data/node.h"

namespace cohort::data::internal {

// Goes over the parameters of a node. A description is written by one implementation and read by
// another, so that each node lists its parameters once.
class Fields {
 public:
  virtual ~Fields() = default;
  virtual void field(std::string_view name, int64_t& value) = 0;
  virtual void field(std::string_view name, double& value) = 0;
  virtual void field(std::string_view name, std::string& value) = 0;
  virtual void field(std::string_view name, Element& value) = 0;
  virtual void field(std::string_view name, Function& value) = 0;
  virtual void field(std::string_view name, DatasetFunction& value) = 0;
  virtual void field(std::string_view name, GeneratorFunction& value) = 0;

  void field(std::string_view name, bool& value);
  void field(std::string_view name, int& value);
  void field(std::string_view name, uint64_t& value);
  void field(std::string_view name, Seed& value);
  void field(std::string_view name, std::optional<bool>& value);
  void field(std::string_view name, std::optional<ElementSpec>& value);
  void field(std::string_view name, std::vector<int64_t>& value);
  void field(std::string_view name, std::vector<double>& value);
  void field(std::string_view name, std::vector<Tensor>& value);
  void field(std::string_view name, std::vector<Shape>& value);
};

}  // namespace cohort::data::internal
