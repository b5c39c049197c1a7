#include "collectives/tensor_collectives.h"

#include <cstring>
#include <map>
#include <numeric>

#include "base/raise.h"
#include "collectives/arithmetic.h"
#include "collectives/engine.h"
#include "kernels/reduce_elements.h"
#include "tensor/body.h"
#include "tensor/memory.h"
#include "transport/message_codec.h"

namespace cohort::internal {
namespace {

Buffer buffer_of(const Tensor& value) {
  return {{element_bytes(value), static_cast<size_t>(bytes_of(value))},
          TensorAccess::shared(value)};
}

// Whether only NCCL reaches the value. What simulated GPUs hold is copied to the host when its
// bytes are asked for.
bool is_on_gpu(const Tensor& value) {
  const Device* const device = body(value).device;
  return device != nullptr && device->name.type == "GPU" && device->place.is_host();
}

void check_place(const Call& call, const Engine& engine) {
  if (!call.on_gpu || engine.takes_gpus()) return;
  raise(Code::InvalidArgument,
        "[{}] the values are on a GPU, but the members talk by {}, which takes host memory; make "
        "the group with NCCL, or move the values to a CPU",
        name_of(call.kind), engine.kind());
}

// Runs body(engine) as that call, whose number is taken: everything that can fail belongs into it.
template <typename Body>
void run(CollectiveGroup& group, Call& call, const Body& body) {
  const auto bound = [&] {
    check_place(call, group.engine());
    body(group.engine());
  };
  group.run(call, std::ref(bound));
}

void check_rows(CallKind kind, const Tensor& value) {
  if (value.rank() > 0) return;
  raise(Code::InvalidArgument, "[{}] takes tensors with a first dimension, not scalars",
        name_of(kind));
}

int64_t row_bytes(const Tensor& value) {
  return value.shape().without(0).num_elements() * size_of(value.dtype());
}

// A tensor as a list of buffers: what describes it, then its elements.
std::vector<Buffer> to_buffers(const Tensor& value) {
  Message message;
  MessageWriter{message}(value);
  std::vector<Buffer> buffers{copy_of(std::as_bytes(std::span(message.header)))};
  buffers.insert(buffers.end(), message.payloads.begin(), message.payloads.end());
  return buffers;
}

Tensor to_tensor(std::vector<Buffer> buffers) {
  if (buffers.empty()) raise(Code::DataLoss, "[AllToAll] a member sent nothing");
  Message message;
  const auto& header = buffers[0].bytes;
  message.header.assign(reinterpret_cast<const char*>(header.data()), header.size());
  message.payloads.assign(buffers.begin() + 1, buffers.end());
  MessageReader reader(message, "a tensor");
  return decode_next<Tensor>(reader);
}

}  // namespace

WritableTensor ResultMemory::take(DType dtype, const Shape& shape) {
  const Device* const device = &value_device();
  const WritableTensor* const free = reuse_last(kept_, [&](const WritableTensor& one) {
    const TensorBody& known = body(one.tensor);
    return known.dtype == dtype && known.device == device && known.shape == shape &&
           is_held_here_only(one.tensor, 1);
  });
  if (free != nullptr) return *free;
  const int64_t bytes = shape.num_elements() * size_of(dtype);
  if (bytes > kMaxBytes) return allocate_tensor(dtype, shape);
  make_room(bytes);
  kept_bytes_ += bytes;
  return kept_.emplace_back(allocate_tensor(dtype, shape));
}

void ResultMemory::make_room(int64_t bytes) {
  while (kept_.size() == kMaxKept || (!kept_.empty() && kept_bytes_ + bytes > kMaxBytes)) {
    kept_bytes_ -= bytes_of(kept_.front().tensor);
    kept_.erase(kept_.begin());
  }
}

Call dense_call(CallKind kind, ReduceOp op, const Tensor& value) {
  const TensorBody& known = body(value);
  check_dtype(kind, op, known.dtype);
  return {.kind = kind,
          .op = op,
          .dtype = known.dtype,
          .shape = known.shape,
          .on_gpu = is_on_gpu(value)};
}

Call gather_call(const Tensor& value) {
  check_dtype(CallKind::AllGather, ReduceOp::Sum, value.dtype());
  check_rows(CallKind::AllGather, value);
  return {.kind = CallKind::AllGather,
          .dtype = value.dtype(),
          .shape = value.shape().with(0, Shape::kUnknownDim),
          .on_gpu = row_bytes(value) > 0 && is_on_gpu(value)};
}

Call scatter_call(const CollectiveGroup& group, ReduceOp op, const Tensor& value) {
  Call call = dense_call(CallKind::ReduceScatter, op, value);
  check_rows(call.kind, value);
  if (value.shape()[0] % group.size() != 0) {
    raise(Code::InvalidArgument,
          "[ReduceScatter] the {} rows of {} do not make {} equal parts; pad them",
          value.shape()[0], value.shape().to_string(), group.size());
  }
  return call;
}

Tensor all_reduce_dense(CollectiveGroup& group, Call& call, const Tensor& value) {
  WritableTensor result;
  run(group, call, [&](Engine& engine) {
    result = group.results().take(reduced_dtype(call.op, call.dtype), call.shape);
    engine.all_reduce(call, buffer_of(value), result.data);
  });
  return result.tensor;
}

Tensor broadcast_dense(CollectiveGroup& group, Call& call, const Tensor& value) {
  WritableTensor result;
  run(group, call, [&](Engine& engine) {
    result = allocate_tensor(call.dtype, call.shape);
    engine.broadcast(call, buffer_of(value), result.data);
  });
  return result.tensor;
}

Tensor reduce_dense(CollectiveGroup& group, Call& call, const Tensor& value) {
  WritableTensor result;
  run(group, call, [&](Engine& engine) {
    if (group.rank() == call.root) {
      result = allocate_tensor(reduced_dtype(call.op, call.dtype), call.shape);
    }
    engine.reduce(call, buffer_of(value), result.data);
  });
  return result.tensor;
}

// Rows without elements: only their number is sent.
Tensor gather_empty_rows(CollectiveGroup& group, Call& call, const Tensor& value) {
  std::vector<int64_t> rows(static_cast<size_t>(group.size()));
  const int64_t own = value.shape()[0];
  const Buffer sent = copy_of(std::as_bytes(std::span(&own, 1)));
  const auto allocate = [&](std::span<const size_t>) {
    return reinterpret_cast<std::byte*>(rows.data());
  };
  run(group, call, [&](Engine& engine) { engine.all_gather(call, sent, std::ref(allocate)); });
  const int64_t all = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  return allocate_tensor(call.dtype, value.shape().with(0, all)).tensor;
}

Tensor gather_dense(CollectiveGroup& group, Call& call, const Tensor& value) {
  const int64_t each = row_bytes(value);
  if (each == 0) return gather_empty_rows(group, call, value);
  WritableTensor result;
  const auto allocate = [&](std::span<const size_t> sizes) {
    int64_t bytes = 0;
    for (const size_t size : sizes) bytes += static_cast<int64_t>(size);
    result = allocate_tensor(call.dtype, value.shape().with(0, bytes / each));
    return result.data;
  };
  run(group, call,
      [&](Engine& engine) { engine.all_gather(call, buffer_of(value), std::ref(allocate)); });
  return result.tensor;
}

Tensor reduce_scatter_dense(CollectiveGroup& group, Call& call, const Tensor& value) {
  WritableTensor result;
  run(group, call, [&](Engine& engine) {
    const Shape part = call.shape.with(0, call.shape[0] / group.size());
    result = allocate_tensor(reduced_dtype(call.op, call.dtype), part);
    engine.reduce_scatter(call, buffer_of(value), result.data);
  });
  return result.tensor;
}

std::vector<Tensor> all_to_all_dense(CollectiveGroup& group, Call& call,
                                     const std::vector<Tensor>& parts) {
  std::vector<Tensor> result;
  run(group, call, [&](Engine& engine) {
    Engine::Parts buffers;
    for (const Tensor& part : parts) buffers.push_back(to_buffers(part));
    for (std::vector<Buffer>& came : engine.all_to_all(call, std::move(buffers))) {
      result.push_back(to_tensor(std::move(came)));
    }
  });
  return result;
}

namespace {

// Tensors are sent together until they have this many bytes.
constexpr int64_t kPackBytes = int64_t{4} << 20;

std::string describe(const std::vector<Tensor>& values, const std::vector<size_t>& pack) {
  std::vector<Shape> shapes;
  for (const size_t i : pack) shapes.push_back(values[i].shape());
  return describe_tensors(values[pack[0]].dtype(), shapes);
}

// All tensors of a pack, one after the other.
Tensor joined(const std::vector<Tensor>& values, const std::vector<size_t>& pack) {
  int64_t count = 0;
  for (const size_t i : pack) count += values[i].size();
  const WritableTensor whole = allocate_tensor(values[pack[0]].dtype(), {count});
  std::byte* at = whole.data;
  for (const size_t i : pack) {
    const auto bytes = static_cast<size_t>(bytes_of(values[i]));
    if (bytes > 0) std::memcpy(at, element_bytes(values[i]), bytes);
    at += bytes;
  }
  return whole.tensor;
}

}  // namespace

std::vector<Tensor> all_reduce_list(CollectiveGroup& group, const std::vector<Tensor>& values,
                                    ReduceOp op, Deadline deadline) {
  std::map<DType, std::vector<size_t>> by_dtype;
  for (size_t i = 0; i < values.size(); ++i) {
    // Checks all before anything happens.
    or_refuse(group, [&] { return dense_call(CallKind::AllReduce, op, values[i]); });
    by_dtype[values[i].dtype()].push_back(i);
  }
  std::vector<Tensor> results(values.size());
  for (const auto& [dtype, places] : by_dtype) {
    std::vector<int64_t> bytes;
    for (const size_t place : places) bytes.push_back(bytes_of(values[place]));
    for (std::vector<size_t> pack : packs_by_bytes(bytes, kPackBytes)) {
      for (size_t& position : pack) position = places[position];
      const bool is_alone = pack.size() == 1;
      const Tensor whole = is_alone ? values[pack[0]] : joined(values, pack);
      Call call = next_call(group, dense_call(CallKind::AllReduce, op, whole), deadline);
      if (!is_alone) call.detail = describe(values, pack);
      const Tensor reduced = all_reduce_dense(group, call, whole);
      int64_t at = 0;
      for (const size_t i : pack) {
        results[i] = is_alone ? reduced : view_elements(reduced, at, values[i].shape());
        at += values[i].size();
      }
    }
  }
  return results;
}

namespace {

Tensor gather(CollectiveGroup& group, const Tensor& own, const std::string& detail,
              Deadline deadline) {
  Call call = next_call(group, gather_call(own), deadline);
  call.detail = detail;
  return gather_dense(group, call, own);
}

Tensor divided(const Tensor& sums, int divisor) {
  const WritableTensor result =
      allocate_tensor(reduced_dtype(ReduceOp::Mean, sums.dtype()), sums.shape());
  divide(sums.dtype(), element_bytes(sums), sums.size(), divisor, result.data);
  return result.tensor;
}

void check_rows(const IndexedSlices& rows, ReduceOp op) {
  if (op != ReduceOp::Sum && op != ReduceOp::Mean) {
    raise(Code::InvalidArgument,
          "[AllReduce] rows of a tensor can be reduced by Sum and Mean, not {}; make them dense",
          to_string(op));
  }
  dense_call(CallKind::AllReduce, op, rows.values);  // checks the dtype
  const Shape values = rows.values.shape();
  const Shape indices = rows.indices.shape();
  const bool fit = rows.indices.dtype() == kInt64 && indices.rank() == 1 && values.rank() > 0 &&
                   values[0] == indices[0] && rows.dense_shape.rank() == values.rank() &&
                   values.without(0) == rows.dense_shape.without(0);
  if (fit) return;
  raise(Code::InvalidArgument,
        "[AllReduce] values of shape {} and {} indices of shape {} are not rows of a tensor of "
        "shape {}; give an int64 index for each row",
        values.to_string(), to_string(rows.indices.dtype()), indices.to_string(),
        rows.dense_shape.to_string());
}

}  // namespace

IndexedSlices all_reduce_rows(CollectiveGroup& group, const IndexedSlices& rows, ReduceOp op,
                              Deadline deadline) {
  or_refuse(group, [&] { check_rows(rows, op); });
  const std::string whole =
      fmt::format("{} rows of {}", to_string(rows.values.dtype()), rows.dense_shape.to_string());
  IndexedSlices all;
  all.dense_shape = rows.dense_shape;
  all.values = gather(group, rows.values, to_string(op) + " of " + whole, deadline);
  all.indices = gather(group, rows.indices, "the indices of " + whole, deadline);
  if (op == ReduceOp::Mean) all.values = divided(all.values, group.size());
  return all;
}

}  // namespace cohort::internal
