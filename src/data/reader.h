#pragma once

// Base classes for stages that read files.

#include "cohort/readers.h"
#include "data/byte_source.h"
#include "data/stage.h"

namespace cohort::data::internal {

// Reads the records of one file. An error is thrown once. The next call continues after the bad
// record if that is possible, else at the end of the file.
class RecordReader {
 public:
  virtual ~RecordReader() = default;
  // As those of Cursor. A reader implements the second one if its node has blocks; else the first.
  virtual bool next(Element& out);
  virtual Block next_block(int64_t /*most*/) { return {}; }
  virtual void position(PositionFields& fields) = 0;
};

// A stage that opens the files that its input names, one after the other.
class ReaderNode : public Node {
 public:
  virtual std::unique_ptr<RecordReader> read(std::unique_ptr<ByteSource> file) const = 0;
  virtual bool has_blocks() const { return false; }

  CursorPtr open(const Context& context) const final;
  Cardinality cardinality() const override { return unknown_unless_empty(input()); }
  NodeRole role() const override { return NodeRole::Reader; }
};

// A ReaderNode whose files a `Reader` reads. That class may be defined later in the file.
template <typename Self, typename Reader, typename Base = ReaderNode>
class ReaderStage : public NodeOf<Self, Base> {
 public:
  std::unique_ptr<RecordReader> read(std::unique_ptr<ByteSource> file) const override {
    return std::make_unique<Reader>(static_cast<const Self&>(*this), std::move(file));
  }
};

// A reader whose records are strings.
class StringReader : public RecordReader {
 public:
  bool next(Element& out) final;
  // A record that fails ends the block before it. The next call throws the failure.
  Block next_block(int64_t most) final;
  void position(PositionFields& fields) final;

 protected:
  // Returns false at the end of the file.
  virtual bool read(std::string& record) = 0;
  // Goes over the position in the file.
  virtual void local_position(PositionFields& fields) = 0;

 private:
  Status failure_;  // of the record after the last block
};

// A stage with a StringReader: its elements are scalars.
class StringReaderNode : public ReaderNode {
 public:
  bool has_blocks() const final { return true; }
  std::optional<ElementSpec> spec() const final { return ElementSpec(TensorSpec{kString, {}}); }
};

// The input of a stage that reads these files.
inline std::vector<NodePtr> names_of(const Files& files) {
  return {DatasetAccess::node(files.names())};
}

// Goes over a position in a file and the number of records before it.
void file_position(PositionFields& fields, BufferedBytes& bytes, int64_t& records);

}  // namespace cohort::data::internal
