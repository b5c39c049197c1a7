#include "data/array_file.h"

#include <algorithm>

#include "data/batch_rows.h"

namespace cohort::data::internal {
namespace {

constexpr int64_t kTrustedBytes = 1 << 20;

// Returns the size in bytes, -1 if it does not fit into 64 bits.
int64_t bytes_of(DType dtype, const Shape& shape) {
  int64_t product = size_of(dtype);
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(product, size, &product)) return -1;
  }
  return product;
}

// Reverses the bytes of each element of that width.
void swap_bytes(std::span<std::byte> bytes, size_t width) {
  for (size_t at = 0; width > 1 && at + width <= bytes.size(); at += width) {
    std::ranges::reverse(bytes.subspan(at, width));
  }
}

// Reads elements of an array, of which the rows may be a part.
TensorBytes read_elements(std::string_view format, BufferedBytes& bytes, const ArrayHeader& header,
                          const Shape& shape) {
  const DType dtype = header.dtype;
  const int64_t wanted = bytes_of(dtype, shape);
  const int64_t left = bytes.left();
  if (wanted < 0 || (left >= 0 && left < wanted)) {
    raise(Code::DataLoss, "[{}] '{}': shape {} of {} is announced, but {} bytes follow", format,
          bytes.name(), shape.to_string(), to_string(dtype),
          left < 0 ? "fewer" : std::to_string(left));
  }
  const auto check_got = [&](size_t got) {
    if (static_cast<int64_t>(got) == wanted) return;
    raise(Code::DataLoss, "[{}] '{}': shape {} of {} is announced, but only {} of {} bytes follow",
          format, bytes.name(), shape.to_string(), to_string(dtype), got, wanted);
  };
  const auto swapped = [&](TensorBytes content) {
    if (header.swapped) swap_bytes(content.bytes(), static_cast<size_t>(size_of(dtype)));
    return content;
  };
  // Allocates all memory in advance only if the bytes are there, or if they are few.
  if (left >= wanted || wanted <= kTrustedBytes) {
    TensorBytes content(cohort::internal::allocate_tensor(dtype, shape),
                        static_cast<size_t>(wanted));
    check_got(bytes.read(content.bytes()));
    return swapped(std::move(content));
  }
  std::vector<std::byte> content = read_growing(bytes, wanted);
  check_got(content.size());
  return swapped(TensorBytes(std::move(content)));
}

// Throws DataLoss unless the source ends here.
void check_at_end(std::string_view format, BufferedBytes& bytes, const Shape& shape) {
  if (bytes.window().empty()) return;
  raise(Code::DataLoss, "[{}] '{}' goes on after the elements of shape {}", format, bytes.name(),
        shape.to_string());
}

// Returns the table from which the names come; null if they do not come from a table.
const Table* list_of(const Node& names) {
  const Node* node = &names;
  while (node->role() == NodeRole::PassThrough) node = &node->input();
  return dynamic_cast<const Table*>(node);
}

std::optional<ElementSpec> row_spec(const ArrayHeader& header) {
  if (header.shape.rank() == 0) return std::nullopt;
  return ElementSpec(TensorSpec{header.dtype, header.shape.without(0)});
}

}  // namespace

Tensor TensorBytes::finish(DType dtype, const Shape& shape) && {
  // A damaged file may hold any byte, but a bool must be 0 or 1.
  if (dtype == kBool) {
    for (std::byte& value : bytes_) value = std::byte{value != std::byte{0}};
  }
  if (tensor_.defined()) return std::move(tensor_);
  static constexpr std::byte kNothing{};
  const void* data = bytes_.empty() ? &kNothing : bytes_.data();
  return Tensor::from_memory(data, dtype, shape,
                             [owner = std::move(owned_)]() mutable { owner.reset(); });
}

TensorBytes read_whole(std::string_view format, BufferedBytes& bytes, const ArrayHeader& header) {
  TensorBytes content = read_elements(format, bytes, header, header.shape);
  check_at_end(format, bytes, header.shape);
  return content;
}

ArrayRows::ArrayRows(std::string_view format, BufferedBytes bytes, ArrayHeader header)
    : format_(format), bytes_(std::move(bytes)), header_(std::move(header)) {
  if (header_.shape.rank() == 0) {
    raise(Code::DataLoss, "[{}] '{}' holds a scalar, which has no rows", format_, bytes_.name());
  }
  if (header_.fortran_order && header_.shape.rank() > 1) {
    raise(Code::Unimplemented,
          "[{}] '{}' is in Fortran order, whose rows are scattered; read_npy() reads it whole",
          format_, bytes_.name());
  }
  row_ = header_.shape.without(0);
  row_bytes_ = size_of(header_.dtype);
  for (const int64_t size : row_) {
    if (!__builtin_mul_overflow(row_bytes_, size, &row_bytes_)) continue;
    raise(Code::DataLoss, "[{}] '{}': a row of shape {} has more bytes than fit into 64 bits",
          format_, bytes_.name(), row_.to_string());
  }
}

std::optional<std::vector<ArrayHeader>> ArrayNode::headers(const Table& names) const {
  constexpr int64_t kMaxFiles = 64;
  if (names.count() < 1 || names.count() > kMaxFiles) return std::nullopt;
  std::vector<ArrayHeader> all;
  const Status failure = capture_status([&] {
    for (int64_t i = 0; i < names.count(); ++i) {
      BufferedBytes bytes(open_bytes(names.row(i).tensor().to<std::string>()));
      all.push_back(read_header(bytes));
    }
  });
  if (!failure.ok()) return std::nullopt;
  return all;
}

std::optional<ElementSpec> ArrayNode::spec() const {
  const Table* names = list_of(input());
  const auto found = names == nullptr ? std::nullopt : headers(*names);
  if (!found) return std::nullopt;
  std::optional<ElementSpec> all = row_spec(found->front());
  for (const ArrayHeader& header : *found) all = common(all, row_spec(header));
  return all;
}

Cardinality ArrayNode::cardinality() const {
  if (input().cardinality() == 0) return 0;
  const auto* names = dynamic_cast<const Table*>(&input());
  const auto found = names == nullptr ? std::nullopt : headers(*names);
  if (!found) return kUnknownCardinality;
  int64_t rows = 0;
  for (const ArrayHeader& header : *found) {
    if (header.shape.rank() == 0) return kUnknownCardinality;
    rows += header.shape[0];
  }
  return rows;
}

Block ArrayRows::next_block(int64_t most) {
  if (ended_) return {};
  const int64_t count = std::min(most, header_.shape[0] - at_);
  ended_ = true;  // if reading throws
  if (count <= 0) {
    check_at_end(format_, bytes_, header_.shape);
    return {};
  }
  check_left(count);
  const Shape shape = row_.with_inserted(0, count);
  TensorBytes content = read_elements(format_, bytes_, header_, shape);
  at_ += count;
  ended_ = false;
  return {count, Element(std::move(content).finish(header_.dtype, shape))};
}

void ArrayRows::check_left(int64_t count) const {
  const int64_t left = bytes_.left();
  if (left < 0 || row_bytes_ == 0 || left / row_bytes_ >= count) return;
  raise(Code::DataLoss, "[{}] '{}': shape {} is announced, but the file ends within rows {} to {}",
        format_, bytes_.name(), header_.shape.to_string(), at_, at_ + count);
}

void ArrayRows::position(PositionFields& fields) {
  fields.flag(ended_);
  file_position(fields, bytes_, at_);
  if (at_ > header_.shape[0])
    raise_bad_state(fmt::format("'{}' has {} rows, but the position is at row {}", bytes_.name(),
                                header_.shape[0], at_));
}

}  // namespace cohort::data::internal
