#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "cluster/protocol_lists.h"
#include "transport/message_fields.h"
#include "transport/status_message.h"
#include "transport/tensor_message.h"

namespace cohort::internal {

// Writes values of every type that messages have. `sender`: the task whose name a status gets when
// it has no origin.
class FieldWriter {
 public:
  FieldWriter(MessageWriter& writer, std::string_view sender) : writer_(writer), sender_(sender) {}

  void put(uint64_t value) { writer_.number(value); }
  void put(int64_t value) { writer_.number(static_cast<uint64_t>(value)); }
  void put(int value) { writer_.number(static_cast<uint64_t>(value)); }
  void put(bool value) { writer_.number(value ? 1 : 0); }
  void put(std::string_view value) { writer_.text(value); }
  void put(const std::string& value) { writer_.text(value); }
  void put(std::chrono::milliseconds value) { put(std::max<int64_t>(value.count(), 0)); }
  void put(std::chrono::nanoseconds value) { put(int64_t{value.count()}); }
  void put(const Buffer& value) { writer_.payload(value); }
  void put(const Tensor& value) { write_tensor(value, writer_); }
  void put(const Status& value) { write_status(value, sender_, writer_); }
  void put(const std::optional<ClusterSpec>& value) {
    put(value.has_value());
    if (value) put(value->as_cluster_def().jobs);
  }
  template <typename T>
  void put(const std::vector<T>& values) {
    put(uint64_t{values.size()});
    for (const T& value : values) put(value);
  }
  template <typename T>
  requires requires(const T& value) { fields(value); }
  void put(const T& value) {
    std::apply([this](const auto&... each) { (put(each), ...); }, fields(value));
  }

 private:
  MessageWriter& writer_;
  const std::string_view sender_;
};

// Takes them in the same order. Trusts nothing, as MessageReader.
class FieldReader {
 public:
  explicit FieldReader(MessageReader& reader) : reader_(reader) {}

  void take(uint64_t& value) { value = reader_.number(); }
  void take(int64_t& value) { value = static_cast<int64_t>(reader_.number(INT64_MAX)); }
  void take(int& value) {
    value = static_cast<int>(reader_.number(std::numeric_limits<int>::max()));
  }
  void take(bool& value) { value = reader_.number(1) != 0; }
  void take(std::string& value) { value = reader_.text(); }
  void take(std::chrono::milliseconds& value) {
    value = std::chrono::milliseconds(reader_.number(kLongestLimitMs));
  }
  void take(std::chrono::nanoseconds& value) {
    value = std::chrono::nanoseconds(reader_.number(INT64_MAX));
  }
  void take(Buffer& value) { value = reader_.payload(); }
  void take(Tensor& value) { value = read_tensor(reader_); }
  void take(Status& value) { value = read_status(reader_); }
  void take(std::optional<ClusterSpec>& value) {
    bool there = false;
    take(there);
    if (!there) return;
    ClusterDef def;
    take(def.jobs);
    const Status status = capture_status([&] { value = ClusterSpec(def); });
    if (!status.ok()) reader_.fail(status.message);
  }
  void take(StepTensors& value) {
    take_fields(value);
    if (value.edges.size() == value.tensors.size()) return;
    reader_.fail("edges and tensors differ in number");
  }
  // One after the other: a false number must not make anybody allocate much.
  template <typename T>
  void take(std::vector<T>& values) {
    for (size_t left = reader_.count(); left > 0; --left) take(values.emplace_back());
  }
  template <typename T>
  requires requires(T& value) { fields(value); }
  void take(T& value) { take_fields(value); }

 private:
  // Longer than any limit that somebody means.
  static constexpr uint64_t kLongestLimitMs = uint64_t{1} << 40;

  void take_fields(auto& value) {
    std::apply([this](auto&... each) { (take(each), ...); }, fields(value));
  }

  MessageReader& reader_;
};

}  // namespace cohort::internal
