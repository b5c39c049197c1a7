// Examples of the ops that read and write files of checkpoints, on files that are made for each
// call.

#include <filesystem>

#include "checkpoint/durable_file.h"
#include "checkpoint/shard_file.h"
#include "conformance/examples/graph.h"
#include "ops/op.h"
#include "support/temporary_file.h"

namespace cohort::testing {
namespace {

std::string file_in(const TemporaryDirectory& directory) {
  return directory.path() + "/" + internal::data_file_name("model", internal::random_id(), 0, 1);
}

// The first four bytes of a tensor in a file.
Tensors read_a_file() {
  const TemporaryDirectory directory;
  const std::string path = file_in(directory);
  const internal::WrittenShard written = internal::write_shard(path, {{"w", Tensor({1.f, 2.f})}});
  const std::vector<int64_t> request{static_cast<int64_t>(written.size),
                                     static_cast<int64_t>(written.header_crc32c),
                                     static_cast<int64_t>(written.tensors.at("w").begin), 4};
  return apply_op("ReadShard", {Tensor(path), Tensor::from(request)}, {});
}

// A vector of numbers and a text.
Tensors load_a_file() {
  const TemporaryDirectory directory;
  const std::string path = file_in(directory);
  const internal::WrittenShard written =
      internal::write_shard(path, {{"w", Tensor({1.f, 2.f})}, {"s", Tensor("text")}});
  std::vector<int64_t> request{static_cast<int64_t>(written.size),
                               static_cast<int64_t>(written.header_crc32c)};
  for (const char* key : {"w", "s"}) {
    const internal::SavedSlice& tensor = written.tensors.at(key);
    request.push_back(static_cast<int64_t>(tensor.begin));
    request.push_back(static_cast<int64_t>(tensor.size));
    request.push_back(static_cast<int64_t>(tensor.crc32c));
  }
  return apply_op(
      "LoadShard", {Tensor(path), Tensor::from(request)},
      {{"components", internal::pack_specs(internal::Specs{{kFloat32, {2}}, {kString, {}}})}});
}

Tensors remove_a_file() {
  const TemporaryDirectory directory;
  const std::string path = file_in(directory);
  internal::write_shard(path, {{"w", Tensor({1.f, 2.f})}});
  return apply_op("RemoveShards", {Tensor({path, path})}, {});
}

}  // namespace

std::vector<OpExample> shard_examples() {
  const Attrs slot{{"slot", std::string("save/held")}};
  const Tensor path("/nowhere/" + internal::data_file_name("model", "0123456789abcdef", 0, 1));
  const Tensor passwords("/etc/passwd");
  const Tensor keys({"w"});
  const Tensor request({int64_t{8}, int64_t{0}, int64_t{0}, int64_t{0}});
  const Attrs one{{"components", internal::pack_specs(internal::Specs{{kFloat32, {2}}})}};
  const Attrs open{{"components", internal::pack_specs(internal::Specs{{kFloat32, {-1}}})}};
  return {
      calling("LoadShard", [](In) { return load_a_file(); },
              {bad("LoadShard", {path, request}, one, "4 numbers do not describe 1 tensors"),
               bad("LoadShard", {path, request}, open, "must be fully known"),
               bad("LoadShard", {passwords, request}, one, "'/etc/passwd' is not the name")}),
      adding("HoldTensors", {Tensor({1.f, 2.f}), Tensor("a")}, slot,
             {bad("HoldTensors", {Tensor(1.f)}, slot, "[HoldTensors]", Code::FailedPrecondition)}),
      adding("WriteShard", {path, keys}, slot,
             {bad("WriteShard", {path, keys}, slot, "[WriteShard]", Code::FailedPrecondition),
              bad("WriteShard", {path, path}, slot, "input 1 must be string (None,)"),
              bad("WriteShard", {passwords, keys}, slot, "'/etc/passwd' is not the name")}),
      calling("ReadShard", [](In) { return read_a_file(); },
              {bad("ReadShard", {path, request}, {}, "cannot open", Code::NotFound),
               bad("ReadShard", {passwords, request}, {}, "'/etc/passwd' is not the name"),
               bad("ReadShard", {path, Tensor({int64_t{8}})}, {}, "input 1 must be int64 (4,)")}),
      calling("RemoveShards", [](In) { return remove_a_file(); },
              {bad("RemoveShards", {Tensor({"/etc/passwd"})}, {}, "'/etc/passwd' is not the name"),
               bad("RemoveShards", {path}, {}, "input 0 must be string (None,)")}),
  };
}

}  // namespace cohort::testing
