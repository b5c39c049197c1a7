#include "data/iterator_position.h"

#include "data/batch_rows.h"
#include "data/byte_source.h"
#include "data/element_access.h"
#include "tensor/body.h"
#include "tensor/memory.h"

namespace cohort::data::internal {

void raise_bad_state(std::string_view reason) {
  raise(Code::InvalidArgument, "[Restore] the saved position does not fit this dataset: {}",
        reason);
}

void StateWriter::integer(int64_t value) {
  // Zigzag encoding with seven bits per byte, because most numbers are small.
  auto rest = static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
  while (rest >= 0x80) {
    bytes_ += static_cast<char>(rest | 0x80);
    rest >>= 7;
  }
  bytes_ += static_cast<char>(rest);
}

void StateWriter::text(std::string_view value) {
  integer(static_cast<int64_t>(value.size()));
  bytes_ += value;
}

void StateWriter::tensor(const Tensor& tensor) {
  integer(static_cast<int64_t>(tensor.dtype()));
  const Shape shape = tensor.shape();
  integer(shape.rank());
  for (const int64_t size : shape) integer(size);
  if (tensor.dtype() == kString) {
    for (const std::string& value : cohort::internal::strings(tensor)) text(value);
  } else {
    bytes_ += as_text(raw_bytes(tensor));
  }
}

void StateWriter::element(const Element& element) {
  text(to_string(*structure_of(element)));
  for (const Tensor& part : tensors_of(element)) tensor(part);
}

void StateWriter::status(const Status& status) {
  integer(static_cast<int64_t>(status.code));
  text(status.message);
  text(status.origin);
  flag(status.cause != nullptr);
  if (status.cause) this->status(*status.cause);
}

std::string_view StateReader::take(int64_t count) {
  if (count < 0 || static_cast<size_t>(count) > rest_.size())
    raise_bad_state("the position ends too early");
  const std::string_view taken = rest_.substr(0, static_cast<size_t>(count));
  rest_.remove_prefix(taken.size());
  return taken;
}

void StateReader::stage(std::string_view kind) {
  const std::string found = text();
  if (found == kind) return;
  raise_bad_state(fmt::format("stage '{}' was expected, but the position has '{}'", kind,
                              found.size() > 40 ? "something else" : found));
}

int64_t StateReader::integer() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<uint8_t>(take(1)[0]);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return static_cast<int64_t>(value >> 1 ^ (~(value & 1) + 1));
  }
  raise_bad_state("a number is too long");
}

int64_t StateReader::integer(int64_t least, int64_t most) {
  const int64_t value = integer();
  if (value < least || value > most)
    raise_bad_state(fmt::format("the number {} is out of range", value));
  return value;
}

std::string StateReader::text() { return std::string(take(integer())); }

Tensor StateReader::tensor() {
  const auto dtype = static_cast<DType>(integer(0, static_cast<int64_t>(kString)));
  const int64_t rank = integer(0, Shape::kMaxRank);
  Shape shape;
  int64_t elements = 1;
  for (int64_t axis = 0; axis < rank; ++axis) {
    shape.push_back(integer(0, int64_t{1} << 48));
    if (__builtin_mul_overflow(elements, shape[-1], &elements))
      raise_bad_state("a tensor is too large");
  }
  // Each element takes at least one byte.
  if (elements > static_cast<int64_t>(left())) raise_bad_state("a tensor is cut off");
  if (dtype == kString) {
    std::vector<std::string> values;
    for (int64_t i = 0; i < elements; ++i) values.push_back(text());
    return Tensor::from(std::move(values), shape);
  }
  if (elements > static_cast<int64_t>(left()) / size_of(dtype))
    raise_bad_state("a tensor is cut off");
  const std::string_view content = take(elements * size_of(dtype));
  cohort::internal::WritableTensor made = cohort::internal::allocate_tensor(dtype, shape);
  content.copy(reinterpret_cast<char*>(made.data), content.size());
  return made.tensor;
}

Element StateReader::element() {
  StructurePtr structure = parse_structure(text());
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < structure->leaves; ++i) tensors.push_back(tensor());
  return ElementAccess::make(std::move(structure), std::move(tensors));
}

Status StateReader::status() {
  Status top;
  Status* at = &top;
  for (int depth = 0; depth < 32; ++depth) {
    at->code = static_cast<Code>(integer(0, 16));
    at->message = text();
    at->origin = text();
    if (!flag()) return top;
    auto cause = std::make_shared<Status>();
    Status* next = cause.get();
    at->cause = std::move(cause);
    at = next;
  }
  raise_bad_state("an error has too many causes");
}

void PositionFields::element(std::optional<Element>& value) {
  bool present = value.has_value();
  flag(present);
  if (!present) return;
  if (reading()) value.emplace();
  element(*value);
}

namespace {
constexpr std::string_view kMagic = "cohort position 1\n";
}  // namespace

std::string sealed(const StateWriter& position) {
  StateWriter checksum;
  checksum.integer(crc32c(position.bytes()));
  return std::string(kMagic) + checksum.bytes() + position.bytes();
}

std::string_view unsealed(std::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    raise_bad_state("the bytes do not come from an iterator's save()");
  }
  bytes.remove_prefix(kMagic.size());
  StateReader head(bytes);
  const int64_t checksum = head.integer();
  const std::string_view position = bytes.substr(bytes.size() - head.left());
  if (checksum != static_cast<int64_t>(crc32c(position))) raise_bad_state("the bytes are damaged");
  return position;
}

}  // namespace cohort::data::internal
