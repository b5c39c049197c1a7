#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/dataset.h"

// Datasets of what is in files.
//
// What readers make of bad input: DataLoss naming the file and the record or line, after which the
// next file is still readable. Files compressed with gzip or zstd are recognised by their content.
namespace cohort::data {

// The names of the files that match shell patterns, sorted. Throws NotFound when a pattern matches
// nothing.
Dataset files(const std::vector<std::string>& patterns);
// Names of files, in each reader: a list, or a dataset of strings, which may be shuffled.
class Files {
 public:
  Files(const char* path) : Files(std::vector<std::string>{path}) {}
  Files(const std::string& path) : Files(std::vector<std::string>{path}) {}
  Files(std::initializer_list<std::string> paths) : Files(std::vector<std::string>(paths)) {}
  Files(const std::vector<std::string>& paths);
  Files(Dataset names) : names_(std::move(names)) {}
  const Dataset& names() const { return names_; }

 private:
  Dataset names_;
};

struct TextOptions {
  int64_t skip_lines = 0;             // at the start of each file
  int64_t max_line_bytes = 16 << 20;  // a longer line is DataLoss
};
// Lines without their ends ("\n" or "\r\n").
Dataset text_lines(const Files& files, const TextOptions& options = {});

struct CsvColumn {
  DType dtype = kFloat32;
  // For an empty field; without it an empty field is DataLoss.
  std::optional<Tensor> fallback = std::nullopt;
};
struct CsvOptions {
  bool header = true;                // the first line of each file names the columns
  std::vector<int64_t> select = {};  // numbers of the columns to read, ascending; default: all
  char delimiter = ',';
  int64_t max_record_bytes = 16 << 20;  // a longer record is DataLoss
};
// Records of RFC 4180 as tuples of scalars, one per column of `columns`, which lists what is read.
Dataset csv(const Files& files, std::vector<CsvColumn> columns, const CsvOptions& options = {});

// Records of `bytes` bytes as strings, between `header` and `footer` bytes that are left out.
struct FixedLengthOptions {
  int64_t header = 0;
  int64_t footer = 0;
};
Dataset fixed_length_records(const Files& files, int64_t bytes,
                             const FixedLengthOptions& options = {});
// (image (3, 32, 32) uint8, label int64), of CIFAR's binary files.
Dataset cifar10(const Files& files);
// (image, coarse label, fine label).
Dataset cifar100(const Files& files);

struct TFRecordOptions {
  bool check_crc = true;
  int64_t max_record_bytes = int64_t{1} << 30;  // a longer record is DataLoss
};
// Records as strings.
Dataset tfrecord(const Files& files, const TFRecordOptions& options = {});

// One feature of a tf.Example: float32, int64 or string.
struct Feature {
  DType dtype = kFloat32;
  // An unknown first size takes as many values as there are.
  Shape shape = {};
  // For examples that lack the feature; without it that is InvalidArgument.
  std::optional<Tensor> fallback = std::nullopt;
};
using Features = std::map<std::string, Feature>;
// A serialized tf.Example as a map of tensors. Throws InvalidArgument naming the feature.
Element parse_example(const std::string& bytes, const Features& features);
Function example_parser(Features features);
// The reverse: each tensor of a map (float32, int64, string, or an integer that fits) as a feature.
std::string make_example(const Element& element);

// The whole of a file of the MNIST family (idx), plain or compressed with gzip or zstd. Throws
// NotFound, or DataLoss saying what is wrong with the file.
Tensor read_idx(const std::string& path);
// Rows of idx files, read as they are needed: a batch is read from the file straight into its
// memory.
Dataset idx(const Files& files);
// NumPy's array files; C and Fortran order, either byte order.
Tensor read_npy(const std::string& path);
// The arrays of an .npz archive by name.
std::map<std::string, Tensor> read_npz(const std::string& path);
// Rows of .npy files, read as they are needed.
Dataset npy(const Files& files);
void write_npy(const std::string& path, const Tensor& tensor);

// Writes TFRecord files. close() reports what the destructor can only log.
class TFRecordWriter {
 public:
  // Throws when the file cannot be made.
  explicit TFRecordWriter(const std::string& path);
  ~TFRecordWriter();
  TFRecordWriter(const TFRecordWriter&) = delete;
  TFRecordWriter& operator=(const TFRecordWriter&) = delete;

  void write(std::string_view record);
  // Hands what was written to the system, so that it survives the end of this program.
  void flush();
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Training and test set: (image (28, 28) uint8, label uint8).
struct TrainAndTest {
  Dataset train;
  Dataset test;
};
// The four files of the set, compressed or not, in `directory`. Throws NotFound naming the missing
// file and where it comes from.
TrainAndTest mnist(const std::string& directory);
TrainAndTest fashion_mnist(const std::string& directory = "/usr/share/datasets/fashion-mnist");

}  // namespace cohort::data
