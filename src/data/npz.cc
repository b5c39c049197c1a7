#include <zip.h>

#include <memory>

#include "data/npy.h"

namespace cohort::data {
namespace internal {
namespace {

using Archive = std::unique_ptr<zip_t, void (*)(zip_t*)>;

// The decompressed bytes of a member of an archive. The size that the archive claims is not
// trusted.
class MemberSource : public ByteSource {
 public:
  MemberSource(zip_t* archive, zip_uint64_t index, std::string name)
      : name_(std::move(name)), file_(zip_fopen_index(archive, index, 0), &close) {
    if (!file_) raise(Code::DataLoss, "[Npz] '{}': {}", name_, zip_strerror(archive));
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
      raise(Code::DataLoss, "[Npz] '{}': there are two arrays '{}'", name, array);
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

std::map<std::string, Tensor> parse_npz(std::span<const std::byte> bytes, const std::string& name) {
  check_not_empty(static_cast<int64_t>(bytes.size()), name);
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  return read_source(source, name, error);
}

}  // namespace internal

std::map<std::string, Tensor> read_npz(const std::string& path) {
  // open_file() tells a missing file from a damaged one.
  internal::check_not_empty(internal::open_file(path)->left(), path);
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_file_create(path.c_str(), 0, -1, &error);
  return internal::read_source(source, path, error);
}

}  // namespace cohort::data
