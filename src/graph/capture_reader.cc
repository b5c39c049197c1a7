#include "graph/capture_reader.h"

#include <fmt/format.h>

#include "base/raise.h"
#include "graph/read_nodes.h"
#include "ops/spec_list.h"

namespace cohort::internal {
namespace {

std::string_view to_string(CaptureKind kind) {
  switch (kind) {
    case CaptureKind::Variable:
      return "variable";
    case CaptureKind::Tensor:
      return "tensor";
    case CaptureKind::Iterator:
      return "iterator";
  }
  return "";
}

ElementLayout read_layout(const message::Iterator& in) {
  Specs specs;
  for (const message::Spec& spec : in.tensors()) specs.push_back(read_spec(spec));
  ElementLayout layout{in.structure(), pack_specs(specs)};
  unpack_specs("Iterator", layout.components);  // throws
  return layout;
}

bool fits(const CaptureInfo& capture, const Tensor& supplied) {
  if (!supplied.defined() || supplied.dtype() != argument_dtype(capture)) return false;
  switch (capture.kind) {
    case CaptureKind::Variable:
      return true;
    case CaptureKind::Tensor:
      return supplied.shape().is_compatible_with(capture.spec.shape);
    case CaptureKind::Iterator:
      return is_compatible(source_of(supplied).layout(), capture.elements);
  }
  return false;
}

}  // namespace

CaptureInfo read_capture(const std::string& function, const message::Capture& in) {
  CaptureInfo info{.function = function, .kind = CaptureKind::Tensor, .name = in.tensor()};
  if (in.has_iterator()) {
    info.kind = CaptureKind::Iterator;
    info.name = in.iterator().name();
    info.elements = read_layout(in.iterator());
    info.dataset = in.iterator().dataset();
    return info;
  }
  if (in.from_case() == message::Capture::FROM_NOT_SET) {
    raise(Code::InvalidArgument, "what it captures is not said");
  }
  if (in.has_variable()) {
    info.kind = CaptureKind::Variable;
    info.name = in.variable();
  }
  info.spec = read_spec(in.spec());
  return info;
}

DType argument_dtype(const CaptureInfo& capture) {
  return capture.kind == CaptureKind::Tensor ? capture.spec.dtype : kResource;
}

Tensor bound(const CaptureInfo& capture, const BindCapture& bind) {
  const std::string what = fmt::format("{} {} of function {}", to_string(capture.kind),
                                       quoted(capture.name), quoted(capture.function));
  if (!bind) raise(Code::FailedPrecondition, "[Graph] nobody supplies {}", what);
  Tensor supplied = bind(capture);
  if (!fits(capture, supplied)) {
    raise(Code::FailedPrecondition, "[Graph] what was supplied for {} does not fit: {}", what,
          supplied.defined() ? supplied.to_string() : "nothing");
  }
  return supplied;
}

}  // namespace cohort::internal
