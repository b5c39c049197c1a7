#include "data/string_reader.h"

namespace cohort::data::internal {

bool StringReader::next(Element& out) {
  throw_if_error(std::exchange(failure_, {}));
  std::vector<std::string> record(1);
  if (!read(record[0])) return false;
  out = Element(Tensor::from(std::move(record), Shape{}));
  return true;
}

Block StringReader::next_block(int64_t most) {
  throw_if_error(std::exchange(failure_, {}));
  std::vector<std::string> block;
  failure_ = capture_status([&] {
    std::string record;
    while (static_cast<int64_t>(block.size()) < most && read(record)) {
      block.push_back(std::move(record));
      record.clear();
    }
  });
  if (block.empty()) throw_if_error(std::exchange(failure_, {}));
  if (block.empty()) return {};
  const auto count = static_cast<int64_t>(block.size());
  return {count, Element(Tensor::from(std::move(block)))};
}

void StringReader::save(StateWriter& state) {
  state.status(failure_);
  save_file(state);
}

void StringReader::restore(StateReader& state) {
  failure_ = state.status();
  restore_file(state);
}

}  // namespace cohort::data::internal
