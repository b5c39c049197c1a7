// Reads bytes as a graph and as a function. What is refused must be refused by an error of the
// expected kinds; what is taken must come out of a second writing as it went in.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cohort/error.h"
#include "graph/serialize_graph.h"

namespace {

using cohort::Code;

void require(bool holds) {
  if (!holds) std::abort();
}

bool is_refusal(Code code) {
  return code == Code::InvalidArgument || code == Code::Unimplemented ||
         code == Code::FailedPrecondition;
}

void read_graph(std::string_view bytes) {
  const std::string once = cohort::Graph::deserialize(bytes).serialize();
  require(cohort::Graph::deserialize(once).serialize() == once);
}

void read_function(std::string_view bytes) {
  const cohort::Tensor handle = cohort::internal::make_resource(nullptr);
  cohort::internal::deserialize_function(
      bytes, [&](const cohort::internal::CaptureInfo&) { return handle; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const auto read : {read_graph, read_function}) {
    const cohort::Status status = cohort::capture_status([&] { read(bytes); });
    require(status.ok() || is_refusal(status.code));
  }
  return 0;
}
