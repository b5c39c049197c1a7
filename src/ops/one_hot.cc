#include <cstring>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {

extern constexpr OpDef kOneHot{
    .name = "OneHot",
    .inputs = 1,
    .dtypes = kIntegerTypes,
    .attrs = {{"depth", AttrKind::Int}, {"dtype", AttrKind::DType}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const int64_t depth = inputs.attrs.integer("depth");
      const auto dtype = inputs.attrs.get<DType>("dtype");
      require_size(inputs.op, depth, "the depth");
      to_aten(dtype);  // throws unless numeric
      Shape shape = inputs.shape(0);
      if (!shape.has_rank()) return {{dtype, shape}};
      require_possible_rank(inputs.op, shape.rank() + 1);
      shape.push_back(depth);
      if (shape.is_fully_known()) require_creatable(inputs.op, shape, dtype);
      return {{dtype, shape}};
    },
    .compute =
        [](Kernel& k) {
          const at::Tensor indices = in(k).to(at::kLong).contiguous();
          const int64_t depth = k.attrs.integer("depth");
          const at::ScalarType type = to_aten(k.attrs.get<DType>("dtype"));
          at::DimVector shape(indices.sizes().begin(), indices.sizes().end());
          shape.push_back(depth);
          at::Tensor result = at::zeros(shape, type);
          const at::Tensor one = at::ones({}, type);
          const auto width = static_cast<size_t>(one.element_size());
          auto* row = static_cast<char*>(result.data_ptr());
          const int64_t* index = indices.data_ptr<int64_t>();
          for (int64_t i = 0; i < indices.numel(); ++i, row += static_cast<size_t>(depth) * width) {
            if (index[i] < 0 || index[i] >= depth) continue;
            std::memcpy(row + static_cast<size_t>(index[i]) * width, one.data_ptr(), width);
          }
          set(k, std::move(result));
        },
    .no_gradient_because = "its input is a number of a place",
};

}  // namespace internal

Tensor one_hot(const Tensor& indices, int64_t depth, DType dtype, Site site) {
  return internal::apply(internal::kOneHot, {indices}, {{"depth", depth}, {"dtype", dtype}}, site);
}

}  // namespace cohort
