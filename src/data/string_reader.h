#pragma once

#include "data/reader.h"

namespace cohort::data::internal {

// A reader whose records are strings, handed on one by one or many at a time.
class StringReader : public RecordReader {
 public:
  bool next(Element& out) final;
  bool has_blocks() const final { return true; }
  // A record that fails ends the block before it; the failure is thrown by the next call.
  Block next_block(int64_t most) final;
  void save(StateWriter& state) final;
  void restore(StateReader& state) final;

 protected:
  // False at the end of the file.
  virtual bool read(std::string& record) = 0;
  virtual void save_file(StateWriter& state) = 0;
  virtual void restore_file(StateReader& state) = 0;

 private:
  Status failure_;  // of the record behind the last block
};

// Its stage: elements are scalars.
template <typename Self>
class StringReaderNode : public ReaderNodeOf<Self> {
 public:
  bool has_blocks() const final { return true; }
  std::optional<ElementSpec> spec() const final { return ElementSpec(TensorSpec{kString, {}}); }
};

}  // namespace cohort::data::internal
