#include "graph/wire_format.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "base/raise.h"

namespace cohort::internal {

void write_shape(const Shape& shape, message::Shape& out) {
  if (!shape.has_rank()) {
    out.set_unknown_rank(true);
    return;
  }
  for (const int64_t size : shape) out.add_sizes(size);
}

Shape read_shape(const message::Shape& in) {
  if (!in.unknown_rank()) return read_sizes(in.sizes());
  if (in.sizes_size() > 0) raise(Code::InvalidArgument, "a shape of unknown rank has sizes");
  return Shape::unknown();
}

void write_spec(const Spec& spec, message::Spec& out) {
  out.set_dtype(to_string(spec.dtype));
  write_shape(spec.shape, *out.mutable_shape());
}

Spec read_spec(const message::Spec& in) {
  return {parse_dtype(in.dtype()), read_shape(in.shape())};
}

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;
using Wire = google::protobuf::internal::WireFormatLite;

[[noreturn]] void raise_damaged() {
  raise(Code::InvalidArgument, "[Graph] the bytes are not a serialized graph, or are damaged");
}

// The first field, which tells the format.
uint32_t format_of(std::string_view bytes) {
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  constexpr uint32_t kTag = message::Document::kFormatFieldNumber << Wire::kTagTypeBits;
  uint32_t format = 0;
  if (in.ReadTag() != kTag || !in.ReadVarint32(&format) || format == 0) raise_damaged();
  return format;
}

class Walk {
 public:
  explicit Walk(std::string_view bytes)
      : in_(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size())) {}

  // Reads one message, to the limit of the stream. The schema has no recursion, which bounds the
  // depth.
  void message(const Descriptor& type) {
    while (const uint32_t tag = next_tag()) {
      const FieldDescriptor* found = type.FindFieldByNumber(Wire::GetTagFieldNumber(tag));
      if (found == nullptr) raise_damaged();
      field(*found, Wire::GetTagWireType(tag));
    }
  }

 private:
  uint32_t next_tag() {
    if (in_.BytesUntilLimit() == 0 || (in_.BytesUntilLimit() < 0 && at_end())) return 0;
    const uint32_t tag = in_.ReadTag();
    if (tag == 0) raise_damaged();
    return tag;
  }

  bool at_end() {
    const void* data = nullptr;
    int size = 0;
    return !in_.GetDirectBufferPointer(&data, &size) || size == 0;
  }

  void field(const FieldDescriptor& field, Wire::WireType wire) {
    const Wire::WireType own =
        Wire::WireTypeForFieldType(static_cast<Wire::FieldType>(field.type()));
    const bool packed = field.is_packable() && wire == Wire::WIRETYPE_LENGTH_DELIMITED;
    if (wire != own && !packed) raise_damaged();
    if (wire == Wire::WIRETYPE_LENGTH_DELIMITED) return delimited(field);
    uint64_t value = 0;
    const bool read =
        wire == Wire::WIRETYPE_VARINT ? in_.ReadVarint64(&value) : in_.ReadLittleEndian64(&value);
    if (!read) raise_damaged();
    count_structure(8);
  }

  void delimited(const FieldDescriptor& field) {
    int size = 0;
    if (!in_.ReadVarintSizeAsInt(&size)) raise_damaged();
    if (++parts_ > kMaxDocumentParts) {
      raise(Code::InvalidArgument, "[Graph] the serialized graph has more than {} parts",
            kMaxDocumentParts);
    }
    if (field.message_type() != nullptr) {
      const auto outside = in_.PushLimit(size);
      if (in_.BytesUntilLimit() != size) raise_damaged();
      message(*field.message_type());
      in_.PopLimit(outside);
      return;
    }
    if (!is_content(field)) count_structure(size);
    if (!in_.Skip(size)) raise_damaged();
  }

  static bool is_content(const FieldDescriptor& field) {
    if (field.containing_type() == message::Iterator::descriptor()) {
      return field.number() == message::Iterator::kDatasetFieldNumber;
    }
    return field.containing_type() == proto::TensorValue::descriptor() &&
           (field.number() == proto::TensorValue::kContentFieldNumber ||
            field.number() == proto::TensorValue::kStringsFieldNumber);
  }

  void count_structure(int64_t bytes) {
    structure_ += bytes;
    if (structure_ <= kMaxStructureBytes) return;
    raise(Code::InvalidArgument, "[Graph] the serialized graph has more than {} bytes of structure",
          kMaxStructureBytes);
  }

  CodedInputStream in_;
  int64_t parts_ = 0;
  int64_t structure_ = 0;
};

}  // namespace

void check_wire(std::string_view bytes, uint32_t newest_format) {
  if (static_cast<int64_t>(bytes.size()) > kMaxDocumentBytes) {
    raise(Code::InvalidArgument,
          "[Graph] a serialized graph of {} bytes is too large; at most {} are possible",
          bytes.size(), kMaxDocumentBytes);
  }
  const uint32_t format = format_of(bytes);
  if (format > newest_format) {
    raise(Code::Unimplemented,
          "[Graph] the bytes are in format {}, but this library reads formats up to {}; update the "
          "library",
          format, newest_format);
  }
  Walk(bytes).message(*message::Document::descriptor());
}

}  // namespace cohort::internal
