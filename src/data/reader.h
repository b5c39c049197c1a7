#pragma once

#include "data/byte_source.h"
#include "data/stage.h"

namespace cohort::data::internal {

// Reads the records of one file. An error is thrown once; the next call goes on behind the bad
// record where that is possible, else at the end of the file.
class RecordReader {
 public:
  virtual ~RecordReader() = default;
  virtual bool next(Element& out) = 0;
  // As Cursor's.
  virtual bool has_blocks() const { return false; }
  virtual Block next_block(int64_t /*most*/) { return {}; }
  virtual void save(StateWriter& state) = 0;
  virtual void restore(StateReader& state) = 0;
};

// A stage that opens the files which its input names, one after the other.
class ReaderNode : public Node {
 public:
  virtual std::unique_ptr<RecordReader> read(std::unique_ptr<ByteSource> file) const = 0;
  virtual bool has_blocks() const { return false; }

  CursorPtr open(const Context& context) const final;
  int64_t cardinality() const override {
    return input().cardinality() == 0 ? 0 : kUnknownCardinality;
  }
  NodeRole role() const override { return NodeRole::Reader; }
};

template <typename Self, typename Base = ReaderNode>
class ReaderNodeOf : public Base {
 public:
  std::shared_ptr<Node> clone() const override {
    return std::make_shared<Self>(static_cast<const Self&>(*this));
  }
};

template <typename N>
std::shared_ptr<N> reader_on(const Files& files) {
  return stage_on<N>(DatasetAccess::node(files.names()));
}

// A position in a file, for readers whose whole state it is.
void save_position(StateWriter& state, const BufferedBytes& bytes, int64_t record);
int64_t restore_position(StateReader& state, BufferedBytes& bytes);

}  // namespace cohort::data::internal
