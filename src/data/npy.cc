#include <zip.h>

#include <charconv>
#include <cstring>
#include <memory>

#include "cohort/readers.h"
#include "data/array_file.h"
#include "data/batch_rows.h"
#include "tensor/memory.h"

namespace cohort::data {
namespace internal {
namespace {

constexpr size_t kMaxHeaderBytes = 1 << 20;
constexpr std::pair<std::string_view, DType> kCodes[] = {
    {"f2", kFloat16}, {"f4", kFloat32}, {"f8", kFloat64}, {"i1", kInt8}, {"i2", kInt16},
    {"i4", kInt32},   {"i8", kInt64},   {"u1", kUInt8},   {"b1", kBool}};

// Parses the Python dictionary of a header, which has three keys in any order.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  ArrayHeader parse() {
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      value(key);
      if (!take(',') && peek() != '}') fail("',' or '}' is missing");
    }
    if (seen_ != 7) fail("the dictionary lacks one of 'descr', 'fortran_order' and 'shape'");
    spaces();
    if (!text_.empty()) fail("text follows the dictionary");
    return header_;
  }

 private:
  [[noreturn]] void fail(std::string_view reason) const {
    raise(Code::DataLoss, "[Npy] '{}': bad header: {}", name_, reason);
  }
  void spaces() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n' || text_[0] == '\t')) {
      text_.remove_prefix(1);
    }
  }
  char peek() {
    spaces();
    if (text_.empty()) fail("the dictionary ends too early");
    return text_[0];
  }
  bool take(char c) {
    if (peek() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(fmt::format("'{}' is missing", c));
  }
  bool take_word(std::string_view word) {
    spaces();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::string_view quoted() {
    const char quote = take('\'') ? '\'' : take('"') ? '"' : '\0';
    if (quote == '\0') fail("a quoted name is missing");
    const size_t end = text_.find(quote);
    if (end == std::string_view::npos) fail("a name does not end");
    const std::string_view found = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return found;
  }
  void value(std::string_view key) {
    const int bit = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
    if (bit == 0 || (seen_ & bit) != 0) fail("a key is unknown or comes twice");
    seen_ |= bit;
    if (bit == 1) descr();
    if (bit == 2) {
      header_.fortran_order = take_word("True");
      if (!header_.fortran_order && !take_word("False")) fail("'fortran_order' is not a bool");
    }
    if (bit == 4) shape();
  }
  void descr() {
    if (peek() != '\'' && peek() != '"') {
      raise(Code::Unimplemented, "[Npy] '{}': arrays of records are not supported", name_);
    }
    const std::string_view type = quoted();
    if (type.size() < 2) fail("'descr' is too short");
    const bool ordered = type[0] == '<' || type[0] == '>' || type[0] == '|' || type[0] == '=';
    header_.swapped = type[0] == '>';
    header_.dtype = dtype_of_code(ordered ? type.substr(1) : type);
    if (size_of(header_.dtype) == 1) header_.swapped = false;
  }
  DType dtype_of_code(std::string_view code) const {
    for (const auto& [name, dtype] : kCodes) {
      if (name == code) return dtype;
    }
    raise(Code::Unimplemented, "[Npy] '{}': elements of type '{}' are not supported", name_,
          code.substr(0, 40));
  }
  void shape() {
    expect('(');
    std::vector<int64_t> sizes;
    while (!take(')')) {
      peek();
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) fail("'shape' has a bad size");
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      sizes.push_back(size);
      if (sizes.size() > Shape::kMaxRank) {
        raise(Code::Unimplemented, "[Npy] '{}': more than {} dimensions are not supported", name_,
              Shape::kMaxRank);
      }
      if (!take(',') && peek() != ')') fail("',' or ')' is missing in 'shape'");
    }
    header_.shape = Shape(sizes);
  }

  std::string_view text_;
  const std::string& name_;
  ArrayHeader header_;
  int seen_ = 0;
};

// Returns elements that are in Fortran order in row-major order.
std::vector<std::byte> reorder(std::span<const std::byte> from, const Shape& shape, size_t width) {
  std::vector<std::byte> to(from.size());
  std::vector<int64_t> strides;
  int64_t stride = 1;
  for (const int64_t size : shape) {
    strides.push_back(stride);
    stride *= size;
  }
  const int64_t count = shape.num_elements();
  for (int64_t at = 0; at < count; ++at) {
    int64_t rest = at;
    int64_t source = 0;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      source += rest % shape[axis] * strides[static_cast<size_t>(axis)];
      rest /= shape[axis];
    }
    std::memcpy(to.data() + static_cast<size_t>(at) * width,
                from.data() + static_cast<size_t>(source) * width, width);
  }
  return to;
}

class NpyNode : public NodeOf<NpyNode, ArrayNode> {
 public:
  std::string_view kind() const override { return "Npy"; }
  ArrayHeader read_header(BufferedBytes& bytes) const override { return read_npy_header(bytes); }
};

using Archive = std::unique_ptr<zip_t, void (*)(zip_t*)>;

// The decompressed bytes of a member of an archive. The size that the archive claims is not
// trusted.
class MemberSource : public ByteSource {
 public:
  MemberSource(zip_t* archive, zip_uint64_t index, std::string name)
      : name_(std::move(name)), file_(zip_fopen_index(archive, index, 0), &close) {
    if (!file_) raise(Code::DataLoss, "[Npz] cannot read '{}': {}", name_, zip_strerror(archive));
  }
  size_t read(std::span<std::byte> out) override {
    const zip_int64_t got = zip_fread(file_.get(), out.data(), out.size());
    if (got < 0)
      raise(Code::DataLoss, "[Npz] '{}' is damaged: {}", name_, zip_file_strerror(file_.get()));
    return static_cast<size_t>(got);
  }
  const std::string& name() const override { return name_; }

 private:
  static void close(zip_file_t* file) { zip_fclose(file); }

  std::string name_;
  std::unique_ptr<zip_file_t, void (*)(zip_file_t*)> file_;
};

std::map<std::string, Tensor> read_archive(const Archive& archive, const std::string& name) {
  std::map<std::string, Tensor> arrays;
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<zip_uint64_t>(i);
    const char* member = zip_get_name(archive.get(), index, ZIP_FL_ENC_RAW);
    if (member == nullptr) raise(Code::DataLoss, "[Npz] '{}': a member has no name", name);
    std::string array = member;
    if (!array.ends_with(".npy")) {
      raise(Code::DataLoss, "[Npz] '{}': member '{}' is not an .npy file", name, array);
    }
    BufferedBytes bytes(std::make_unique<MemberSource>(archive.get(), index, name + ":" + array));
    array.resize(array.size() - 4);
    if (!arrays.emplace(array, parse_npy(bytes)).second) {
      raise(Code::DataLoss, "[Npz] '{}': two arrays have the name '{}'", name, array);
    }
  }
  return arrays;
}

// libzip takes an empty file for an archive without members.
void check_not_empty(int64_t bytes, const std::string& name) {
  if (bytes == 0) raise(Code::DataLoss, "[Npz] '{}' is not an .npz archive: it is empty", name);
}

// Takes over `source`, which is null if `error` says why it could not be made.
std::map<std::string, Tensor> read_source(zip_source_t* source, const std::string& name,
                                          zip_error_t& error) {
  zip_t* opened = source == nullptr
                      ? nullptr
                      : zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error);
  if (opened == nullptr) {
    if (source != nullptr) zip_source_free(source);
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    raise(Code::DataLoss, "[Npz] '{}' is not an .npz archive: {}", name, reason);
  }
  return read_archive(Archive(opened, &zip_discard), name);
}

}  // namespace

ArrayHeader read_npy_header(BufferedBytes& bytes) {
  constexpr std::string_view kNumpyMagic("\x93NUMPY", 6);
  const std::string_view start = as_text(bytes.window(12));
  if (!start.starts_with(kNumpyMagic) || start.size() < 10) {
    raise(Code::DataLoss, "[Npy] '{}' is not a NumPy array file", bytes.name());
  }
  const int version = static_cast<uint8_t>(start[6]);
  if (version < 1 || version > 3) {
    raise(Code::Unimplemented, "[Npy] '{}' has version {} of the format; 1 to 3 are supported",
          bytes.name(), version);
  }
  const size_t width = version == 1 ? 2 : 4;
  size_t length = 0;
  for (size_t i = 0; i < width && 8 + i < start.size(); ++i) {
    length |= static_cast<size_t>(static_cast<uint8_t>(start[8 + i])) << (8 * i);
  }
  if (length > kMaxHeaderBytes) {
    raise(Code::DataLoss, "[Npy] '{}' claims a header of {} bytes; at most {} are supported",
          bytes.name(), length, kMaxHeaderBytes);
  }
  const size_t whole = 8 + width + length;
  const std::string_view all = as_text(bytes.window(whole));
  if (all.size() < whole) {
    raise(Code::DataLoss, "[Npy] '{}' ends inside its header", bytes.name());
  }
  const ArrayHeader header = HeaderParser(all.substr(8 + width, length), bytes.name()).parse();
  bytes.consume(whole);
  return header;
}

Tensor parse_npy(BufferedBytes& bytes) {
  const ArrayHeader header = read_npy_header(bytes);
  TensorBytes content = read_whole("Npy", bytes, header);
  if (header.fortran_order && header.shape.rank() > 1) {
    const auto width = static_cast<size_t>(size_of(header.dtype));
    content = TensorBytes(reorder(content.bytes(), header.shape, width));
  }
  return std::move(content).finish(header.dtype, header.shape);
}

std::string npy_header(const Tensor& tensor) {
  std::string_view code;
  for (const auto& [name, dtype] : kCodes) {
    if (dtype == tensor.dtype()) code = name;
  }
  if (code.empty()) {
    raise(Code::InvalidArgument, "[Npy] {} tensors have no counterpart in NumPy's format",
          to_string(tensor.dtype()));
  }
  std::string text =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': {}, }}",
                  size_of(tensor.dtype()) == 1 ? '|' : '<', code, tensor.shape().to_string());
  constexpr size_t kAlignment = 64;
  constexpr size_t kStart = 10;
  text.append(kAlignment - (kStart + text.size() + 1) % kAlignment, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

std::map<std::string, Tensor> parse_npz(std::span<const std::byte> bytes, const std::string& name) {
  check_not_empty(static_cast<int64_t>(bytes.size()), name);
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  return read_source(source, name, error);
}

std::shared_ptr<Node> make_npy() { return std::make_shared<NpyNode>(); }

}  // namespace internal

Tensor read_npy(const std::string& path) {
  internal::BufferedBytes bytes(internal::open_bytes(path));
  return internal::parse_npy(bytes);
}

void write_npy(const std::string& path, const Tensor& tensor) {
  const std::string header = internal::npy_header(tensor);
  internal::FileWriter file(path);
  file.write(header);
  file.write(internal::as_text(internal::raw_bytes(tensor)));
  file.close();
}

Dataset npy(const Files& files) {
  return internal::add_stage<internal::NpyNode>(internal::names_of(files));
}

std::map<std::string, Tensor> read_npz(const std::string& path) {
  // open_file() tells a missing file from a damaged one.
  internal::check_not_empty(internal::open_file(path)->left(), path);
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_file_create(path.c_str(), 0, -1, &error);
  return internal::read_source(source, path, error);
}

}  // namespace cohort::data
