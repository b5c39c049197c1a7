// No bytes whatever do more than throw when they are read as a graph.

#include <gtest/gtest.h>

#include <random>

#include "graph/wire_format.h"
#include "support/expect_error.h"
#include "support/sample_graphs.h"

namespace cohort::testing {
namespace {

using internal::CaptureInfo;
namespace message = internal::message;

// Bytes that were a document once.
class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  std::string operator()(std::string bytes) {
    const int changes = below(4) + 1;
    for (int i = 0; i < changes && !bytes.empty(); ++i) change(bytes);
    return bytes;
  }

 private:
  int below(size_t bound) { return static_cast<int>(random_() % bound); }

  void change(std::string& bytes) {
    const size_t at = static_cast<size_t>(below(bytes.size()));
    const size_t from = static_cast<size_t>(below(bytes.size()));
    const size_t length = static_cast<size_t>(below(40));
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(at, std::string(bytes, from, length));
        break;
      case 4:
        bytes.erase(at, length);
        break;
      case 5:
        bytes.replace(at, length, std::string(bytes, from, length));
        break;
    }
  }

  std::mt19937 random_;
};

// Messages that are well formed, with values that are not.
class FieldMutator {
 public:
  explicit FieldMutator(uint32_t seed) : random_(seed) {}

  std::string operator()(const std::string& bytes) {
    message::Document document;
    document.ParseFromString(bytes);
    const int changes = below(3) + 1;
    for (int i = 0; i < changes; ++i) change(document);
    return document.SerializeAsString();
  }

 private:
  using Field = google::protobuf::FieldDescriptor;

  int below(int bound) { return static_cast<int>(random_() % static_cast<uint32_t>(bound)); }

  int64_t number() {
    constexpr int64_t kExtremes[] = {
        INT64_MIN, INT64_MIN + 1,    -9,       -2, -1, 0, 1, 2, 3, 9, 64, 1 << 20,
        INT32_MAX, int64_t{1} << 46, INT64_MAX};
    return kExtremes[below(std::size(kExtremes))];
  }

  // Goes down from a message to a field of it, of its parts, and so on, and changes that.
  void change(google::protobuf::Message& in) {
    const auto* reflection = in.GetReflection();
    std::vector<const Field*> fields;
    reflection->ListFields(in, &fields);
    if (fields.empty()) return;
    const Field* field = fields[static_cast<size_t>(below(static_cast<int>(fields.size())))];
    if (field->name() == "format") return;
    if (!field->is_repeated()) return change_one(in, field);
    const int size = reflection->FieldSize(in, field);
    const int at = below(size);
    const int kind = below(8);
    if (kind == 0) return reflection->RemoveLast(&in, field);
    if (kind == 1) return reflection->SwapElements(&in, field, at, below(size));
    change_element(in, field, at);
  }

  void change_one(google::protobuf::Message& in, const Field* field) {
    const auto* reflection = in.GetReflection();
    switch (field->cpp_type()) {
      case Field::CPPTYPE_MESSAGE:
        if (below(8) == 0) return reflection->ClearField(&in, field);
        return change(*reflection->MutableMessage(&in, field));
      case Field::CPPTYPE_STRING:
        return reflection->SetString(&in, field, text(reflection->GetString(in, field)));
      case Field::CPPTYPE_INT64:
        return reflection->SetInt64(&in, field, number());
      case Field::CPPTYPE_INT32:
        return reflection->SetInt32(&in, field, static_cast<int32_t>(number()));
      case Field::CPPTYPE_DOUBLE:
        return reflection->SetDouble(&in, field, static_cast<double>(number()) * 1e300);
      case Field::CPPTYPE_BOOL:
        return reflection->SetBool(&in, field, !reflection->GetBool(in, field));
      default:
        return;
    }
  }

  void change_element(google::protobuf::Message& in, const Field* field, int at) {
    const auto* reflection = in.GetReflection();
    switch (field->cpp_type()) {
      case Field::CPPTYPE_MESSAGE:
        return change(*reflection->MutableRepeatedMessage(&in, field, at));
      case Field::CPPTYPE_STRING:
        return reflection->SetRepeatedString(&in, field, at,
                                             text(reflection->GetRepeatedString(in, field, at)));
      case Field::CPPTYPE_INT64:
        return reflection->SetRepeatedInt64(&in, field, at, number());
      default:
        return;
    }
  }

  // Another op, dtype or input as often as nonsense.
  std::string text(std::string old) {
    static constexpr std::string_view kWords[] = {"float32", "int64", "bool",  "string", "resource",
                                                  "x",       "any",   "Split", "",       "_"};
    const auto ops = internal::all_ops();
    switch (below(4)) {
      case 0:
        return std::string(ops[static_cast<size_t>(below(static_cast<int>(ops.size())))]->name);
      case 1:
        return std::string(kWords[below(std::size(kWords))]);
      case 2:
        return old + ":" + std::to_string(below(3));
      default:
        if (!old.empty()) old.pop_back();
        return old;
    }
  }

  std::mt19937 random_;
};

bool is_expected(Code code) {
  return code == Code::Ok || code == Code::InvalidArgument || code == Code::Unimplemented ||
         code == Code::FailedPrecondition;
}

std::vector<std::string> samples() {
  Variable variable(Tensor({2.f, 3.f}), {.name = "factor"});
  return {small_graph().serialize(), sample_graph().serialize(), graph_of_depth(3).serialize(),
          internal::serialize_function(*sample_function(variable))};
}

void expect_only_errors(const std::string& bytes) {
  const Status graph = error_of([&] { Graph::deserialize(bytes).serialize(); });
  EXPECT_TRUE(is_expected(graph.code)) << graph;
  const Tensor handle = internal::make_resource(nullptr);
  const Status function = error_of(
      [&] { internal::deserialize_function(bytes, [&](const CaptureInfo&) { return handle; }); });
  EXPECT_TRUE(is_expected(function.code)) << function;
}

TEST(ReadingGraphs, ThrowsForDamagedBytesAndDoesNothingElse) {
  const std::vector<std::string> originals = samples();
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(seed);
    expect_only_errors(Mutator(seed)(originals[seed % originals.size()]));
  }
}

TEST(ReadingGraphs, ThrowsForNonsenseInTheFieldsAndDoesNothingElse) {
  const std::vector<std::string> originals = samples();
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(seed);
    expect_only_errors(FieldMutator(seed)(originals[seed % originals.size()]));
  }
}

}  // namespace
}  // namespace cohort::testing
