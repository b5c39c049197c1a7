#pragma once

#include <map>

#include "cohort/dataset.h"
#include "cohort/internal/owned.h"

// Datasets that read files.
//
// If a file is damaged, a reader throws DataLoss, which names the file and the record or line. The
// next file is still readable afterwards. Readers recognize files compressed with gzip or zstd by
// their content.
namespace cohort::data {

// The sorted names of the files that match shell patterns. Throws NotFound if a pattern matches no
// file.
Dataset files(const std::vector<std::string>& patterns);
// Files names the files of a reader: a list, or a dataset of strings, which may be shuffled.
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

// Options of text_lines.
struct TextOptions {
  int64_t skip_lines = 0;             // at the start of each file
  int64_t max_line_bytes = 16 << 20;  // a longer line throws DataLoss
};
// Lines of text without their ends ("\n" or "\r\n").
Dataset text_lines(const Files& files, const TextOptions& options = {});

// The type of one column that csv() reads.
struct CsvColumn {
  DType dtype = kFloat32;
  // The value of an empty field. Without it, an empty field throws DataLoss.
  std::optional<Tensor> fallback = std::nullopt;
};
// Options of csv().
struct CsvOptions {
  bool header = true;                // the first line of each file names the columns
  std::vector<int64_t> select = {};  // numbers of the columns to read, ascending; default: all
  char delimiter = ',';
  int64_t max_record_bytes = 16 << 20;  // a longer record throws DataLoss
};
// Records of RFC 4180 as tuples of scalars. `columns` lists the columns that are read.
//
//   auto rows = data::csv("houses.csv", {{kFloat32}, {kInt64, Tensor(int64_t{0})}});
//   for (auto [price, rooms] : rows.as<float, int64_t>()) std::cout << price / rooms << '\n';
Dataset csv(const Files& files, std::vector<CsvColumn> columns, const CsvOptions& options = {});

// Bytes at the start and at the end of each file that fixed_length_records() leaves out.
struct FixedLengthOptions {
  int64_t header = 0;
  int64_t footer = 0;
};
// Records of `bytes` bytes as strings.
Dataset fixed_length_records(const Files& files, int64_t bytes,
                             const FixedLengthOptions& options = {});
// CIFAR-10's binary files: (image (3, 32, 32) uint8, label int64).
Dataset cifar10(const Files& files);
// CIFAR-100's binary files: (image, coarse label, fine label).
Dataset cifar100(const Files& files);

// Options of tfrecord().
struct TFRecordOptions {
  bool check_crc = true;
  int64_t max_record_bytes = int64_t{1} << 30;  // a longer record throws DataLoss
};
// The records of TFRecord files as strings.
Dataset tfrecord(const Files& files, const TFRecordOptions& options = {});

// The type of one feature of a tf.Example: float32, int64 or string.
struct Feature {
  DType dtype = kFloat32;
  // An unknown first size takes all values of the feature.
  Shape shape = {};
  // The value for examples without the feature. Without a fallback, such an example throws
  // InvalidArgument.
  std::optional<Tensor> fallback = std::nullopt;
};
using Features = std::map<std::string, Feature>;
// Turns a serialized tf.Example into a map of tensors. Throws InvalidArgument, naming the feature.
//
//   data::Features features = {{"image", {.shape = {784}}}, {"label", {.dtype = kInt64}}};
//   auto examples = data::tfrecord("train.tfrecord").map(data::example_parser(features));
Element parse_example(const std::string& bytes, const Features& features);
// Returns parse_example() as a function for Dataset::map.
Function example_parser(Features features);
// The reverse of parse_example(): writes each tensor of a map as a feature. A tensor is float32,
// int64, string, or of a smaller floating or integer type.
std::string make_example(const Element& element);

// Returns the whole of an idx file, as MNIST has them, plain or compressed with gzip or zstd.
// Throws NotFound, or DataLoss that says what is wrong with the file.
Tensor read_idx(const std::string& path);
// The rows of idx files. A batch is read from the file directly into its memory when it is needed.
Dataset idx(const Files& files);
// Returns the array of a NumPy .npy file, in C or Fortran order and in either byte order.
Tensor read_npy(const std::string& path);
// Returns the arrays of an .npz archive by name.
std::map<std::string, Tensor> read_npz(const std::string& path);
// The rows of .npy files, which are read when they are needed.
Dataset npy(const Files& files);
// Writes the tensor as an .npy file.
void write_npy(const std::string& path, const Tensor& tensor);

// TFRecordWriter writes a TFRecord file. close() throws errors, which the destructor can only log.
//
//   data::TFRecordWriter writer("train.tfrecord");
//   writer.write(data::make_example(data::Element::map({{"image", x}, {"label", y}})));
//   writer.close();
class TFRecordWriter {
 public:
  // Throws if the file cannot be created.
  explicit TFRecordWriter(const std::string& path);
  ~TFRecordWriter();
  TFRecordWriter(const TFRecordWriter&) = delete;
  TFRecordWriter& operator=(const TFRecordWriter&) = delete;

  void write(std::string_view record);
  // Passes what was written to the system, so that it survives the end of this program.
  void flush();
  void close();

 private:
  struct Impl;
  cohort::internal::Owned<Impl> impl_;
};

// A training set and a test set: (image (28, 28) uint8, label uint8).
struct TrainAndTest {
  Dataset train;
  Dataset test;
};
// Reads the four files of the set, compressed or not, from `directory`. Throws NotFound, which
// names the missing file and where to get it.
TrainAndTest mnist(const std::string& directory);
TrainAndTest fashion_mnist(const std::string& directory = "/usr/share/datasets/fashion-mnist");

}  // namespace cohort::data
