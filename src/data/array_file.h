#pragma once

// Files that hold one array: idx and npy.

#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "cohort/tensor.h"
#include "data/reader.h"
#include "tensor/memory.h"

namespace cohort::data::internal {

// The header of a file that holds one array.
struct ArrayHeader {
  DType dtype = kFloat32;
  bool swapped = false;        // the elements are big-endian
  bool fortran_order = false;  // the first index varies fastest
  Shape shape;
};

// The elements of a tensor that are being read from a file.
class TensorBytes {
 public:
  explicit TensorBytes(cohort::internal::WritableTensor tensor, size_t bytes)
      : tensor_(std::move(tensor.tensor)), bytes_(tensor.data, bytes) {}
  explicit TensorBytes(std::vector<std::byte> bytes)
      : owned_(std::make_shared<std::vector<std::byte>>(std::move(bytes))), bytes_(*owned_) {}
  std::span<std::byte> bytes() { return bytes_; }
  // Makes a tensor of the bytes without a copy.
  Tensor finish(DType dtype, const Shape& shape) &&;

 private:
  Tensor tensor_;                                  // the tensor whose memory bytes_ are, or
  std::shared_ptr<std::vector<std::byte>> owned_;  // a buffer of which finish() makes a tensor
  std::span<std::byte> bytes_;
};

// Reads the elements of an array whose header was read. Throws DataLoss, "[format] ...", if the
// shape does not fit into 64 bits or into the rest of the file, or unless the source ends after it.
TensorBytes read_whole(std::string_view format, BufferedBytes& bytes, const ArrayHeader& header);

// Read a file in the format of MNIST. Throw DataLoss if it is damaged.
ArrayHeader read_idx_header(BufferedBytes& bytes);
Tensor parse_idx(BufferedBytes& bytes);

// Read a file of NumPy. Throw DataLoss if it is damaged, Unimplemented if no tensor can have its
// element type.
ArrayHeader read_npy_header(BufferedBytes& bytes);
Tensor parse_npy(BufferedBytes& bytes);
// Returns the header that write_npy() writes.
std::string npy_header(const Tensor& tensor);
// Reads the arrays of an archive in memory.
std::map<std::string, Tensor> parse_npz(std::span<const std::byte> archive,
                                        const std::string& name);

// Reads the rows of an array in a file. A block of rows is read directly into a tensor.
class ArrayRows : public RecordReader {
 public:
  // `bytes` are those after the header. Messages of errors begin with [format].
  ArrayRows(std::string_view format, BufferedBytes bytes, ArrayHeader header);

  Block next_block(int64_t most) override;
  void position(PositionFields& fields) override;

 private:
  // Throws DataLoss if the file is known to end before `count` more rows.
  void check_left(int64_t count) const;

  std::string_view format_;
  BufferedBytes bytes_;
  ArrayHeader header_;
  Shape row_;
  int64_t row_bytes_ = 0;
  int64_t at_ = 0;
  bool ended_ = false;
};

// The stage of one format. spec() and cardinality() read the headers of the files.
class ArrayNode : public ReaderNode {
 public:
  virtual ArrayHeader read_header(BufferedBytes& bytes) const = 0;

  std::optional<ElementSpec> spec() const final;
  Cardinality cardinality() const final;

  std::unique_ptr<RecordReader> read(std::unique_ptr<ByteSource> file) const final {
    BufferedBytes bytes(std::move(file));
    const ArrayHeader header = read_header(bytes);
    return std::make_unique<ArrayRows>(kind(), std::move(bytes), header);
  }
  bool has_blocks() const final { return true; }

 private:
  // Returns the headers of the named files; nullopt if there are many, or if one cannot be read.
  std::optional<std::vector<ArrayHeader>> headers(const Table& names) const;
};

}  // namespace cohort::data::internal
