#pragma once

#include "data/read_tensor.h"
#include "data/reader.h"

namespace cohort::data::internal {

// Rows of an array that a file holds, read as they are asked for: a block of them goes from the
// file straight into a tensor.
class ArrayRows : public RecordReader {
 public:
  // `bytes` stand behind the header. DataLoss and Unimplemented begin with [format].
  ArrayRows(std::string_view format, BufferedBytes bytes, ArrayHeader header);

  bool next(Element& out) override;
  bool has_blocks() const override { return true; }
  Block next_block(int64_t most) override;
  void save(StateWriter& state) override;
  void restore(StateReader& state) override;

 private:
  // Throws DataLoss when the file is known to end before `count` more rows.
  void check_left(int64_t count) const;

  std::string_view format_;
  BufferedBytes bytes_;
  ArrayHeader header_;
  Shape row_;
  int64_t row_bytes_ = 0;
  int64_t at_ = 0;
  bool ended_ = false;
};

// The stage of one format. What its elements are, and how many, stands in the headers of the files:
// those are read when somebody asks.
class ArrayNode : public ReaderNode {
 public:
  virtual ArrayHeader read_header(BufferedBytes& bytes) const = 0;

  std::optional<ElementSpec> spec() const final;
  int64_t cardinality() const final;

  std::unique_ptr<RecordReader> read(std::unique_ptr<ByteSource> file) const final {
    BufferedBytes bytes(std::move(file));
    const ArrayHeader header = read_header(bytes);
    return std::make_unique<ArrayRows>(kind(), std::move(bytes), header);
  }
  bool has_blocks() const final { return true; }
  void fields(Fields&) final {}

 private:
  // Those of the files that a list names; nullopt when it is long, or a file cannot be read.
  std::optional<std::vector<ArrayHeader>> headers(const Table& names) const;
};

}  // namespace cohort::data::internal
