#pragma once

#include "data/node.h"

namespace cohort::data::internal {

// The function registered under `name`. Throws NotFound.
Function find_function(const std::string& name);
DatasetFunction find_dataset_function(const std::string& name);
GeneratorFunction find_generator(const std::string& name);

}  // namespace cohort::data::internal
