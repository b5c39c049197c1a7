#include <cstring>

#include "data/array_file.h"
#include "data/byte_source.h"
#include "support/compress.h"
#include "support/datasets.h"
#include "support/no_descriptors.h"

namespace cohort::data {
namespace {

using Texts = std::vector<std::string>;

TEST(Files, AreNotMissingBecauseTheirDirectoryCannotBeListed) {
  const TemporaryDirectory directory;
  directory.file("a.txt", "x");
  EXPECT_EQ(files({directory.path("*.txt")}).cardinality(), 1);
  const NoDescriptors none;
  EXPECT_ERROR(Code::ResourceExhausted, "ulimit -n", files({directory.path("*.txt")}));
}

TEST(Crc32c, HasTheKnownCheckValue) { EXPECT_EQ(internal::crc32c("123456789"), 0xe3069283u); }

TEST(TextLines, ReadsPlainAndCompressedFiles) {
  const TemporaryDirectory directory;
  const std::string text = "one\ntwo\r\n\nfour";
  const Texts lines = {"one", "two", "", "four"};
  EXPECT_EQ(texts(text_lines(directory.file("a.txt", text))), lines);
  EXPECT_EQ(texts(text_lines(directory.file("a.gz", gzip(text)))), lines);
  EXPECT_EQ(texts(text_lines(directory.file("b.gz", gzip("one\ntw") + gzip("o\n\nfour")))), lines);
  EXPECT_EQ(texts(text_lines(directory.file("a.zst", zstd(text)))), lines);
  EXPECT_EQ(texts(text_lines(directory.file("b.zst", zstd("one\n") + zstd("two\n\nfour")))), lines);
  EXPECT_EQ(texts(text_lines(directory.path("a.txt"), {.skip_lines = 3})), Texts{"four"});
  EXPECT_EQ(texts(text_lines(directory.file("empty", ""))), Texts{});
}

TEST(TextLines, LongLinesAreErrorsAndPassedOver) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a", "short\n" + std::string(1'000'000, 'x') + "\nend\n");
  Iterator it = text_lines(path, {.max_line_bytes = 1000}).iterator();
  EXPECT_EQ(it.next().to<std::string>(), "short");
  EXPECT_ERROR(Code::DataLoss, "line 2 is longer than 1000 bytes", it.next());
  EXPECT_EQ(it.next().to<std::string>(), "end");
}

TEST(Files, MatchPatternsAndAreMissed) {
  const TemporaryDirectory directory;
  directory.file("b.txt", "b");
  directory.file("a.txt", "a");
  const auto found = files({directory.path("*.txt"), directory.path("a.*")});
  EXPECT_EQ(found.cardinality(), 2);
  EXPECT_EQ(texts(text_lines(found)), (Texts{"a", "b"}));
  EXPECT_ERROR(Code::NotFound, "no file matches", files({directory.path("*.csv")}));
  EXPECT_ERROR(Code::InvalidArgument, "empty", files({}));
  EXPECT_ERROR(Code::NotFound, "No such file", texts(text_lines(directory.path("none"))));
  EXPECT_ERROR(Code::FailedPrecondition, "is a directory", texts(text_lines(directory.path("."))));
  Iterator it = text_lines({directory.path("none"), directory.path("a.txt")}).iterator();
  EXPECT_ERROR(Code::NotFound, "[TextLines] element 0", it.next());
  EXPECT_EQ(it.next().to<std::string>(), "a");  // the next file is still readable
}

TEST(Csv, ReadsTypedColumns) {
  const TemporaryDirectory directory;
  const std::string path = directory.file(
      "a.csv", "n,x,name\r\n1,2.5,plain\r\n-3,1e-3,\"quoted, \"\"so\"\"\nand on\"\r\n\n 4 ,+.5,\n");
  const auto dataset = csv(path, {{kInt64}, {kFloat32}, {kString}});
  std::vector<std::tuple<int64_t, float, std::string>> all;
  for (auto row : dataset.as<int64_t, float, std::string>()) all.push_back(row);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0], std::tuple(1, 2.5f, "plain"));
  EXPECT_EQ(all[1], std::tuple(-3, 1e-3f, "quoted, \"so\"\nand on"));
  EXPECT_EQ(all[2], std::tuple(4, .5f, ""));
  const Element batch = *dataset.batch(3).begin();
  EXPECT_EQ(batch[0].tensor().to_vector<int64_t>(), (std::vector<int64_t>{1, -3, 4}));
}

TEST(Csv, SelectsColumnsAndFillsEmptyFields) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.tsv", "1\t\t3\tx\n4\t5\t6\ty\n");
  const auto dataset = csv(path, {{kInt32, Tensor(-1)}, {kString}},
                           {.header = false, .select = {1, 3}, .delimiter = '\t'});
  const Element batch = *dataset.batch(9).begin();
  EXPECT_EQ(batch[0].tensor().to_vector<int32_t>(), (std::vector<int32_t>{-1, 5}));
  EXPECT_EQ(batch[1].tensor().to_vector<std::string>(), (Texts{"x", "y"}));
}

TEST(Csv, FloatsAreTheNearestOnes) {
  const TemporaryDirectory directory;
  std::string text;
  std::vector<float> expected;
  uint64_t state = 1;
  for (int i = 0; i < 3000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const std::string number = std::to_string(static_cast<int64_t>(state >> 40)) + "." +
                               std::to_string(state % 1'000'000'007 >> (i % 20));
    text += number + "\n";
    expected.push_back(std::strtof(number.c_str(), nullptr));
  }
  const auto dataset = csv(directory.file("a.csv", text), {{kFloat32}}, {.header = false});
  const Element batch = *dataset.batch(3000).begin();
  EXPECT_EQ(batch[0].tensor().to_vector<float>(), expected);
}

TEST(Npy, RoundTripsEveryDtype) {
  const TemporaryDirectory directory;
  const std::string path = directory.path("a.npy");
  const std::vector<Tensor> all = {Tensor({{1.f, 2.f}, {3.f, 4.f}}),
                                   Tensor({1.0, -2.5}),
                                   Tensor(7),
                                   Tensor({true, false}),
                                   Tensor::from(std::vector<uint8_t>{1, 255}),
                                   Tensor::from(std::vector<int64_t>{}, {0, 3}),
                                   Tensor::from(std::vector<int16_t>{-5, 5})};
  for (const Tensor& tensor : all) {
    write_npy(path, tensor);
    EXPECT_EQ(fingerprint(Element(read_npy(path))), fingerprint(Element(tensor)));
  }
  EXPECT_ERROR(Code::InvalidArgument, "no counterpart", write_npy(path, Tensor("text")));
  write_npy(path, Tensor({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}}));
  const Element batch = *npy(path).batch(2).begin();
  EXPECT_EQ(batch.tensor().to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(rest_of(npy(path).iterator()).size(), 3u);
}

// Around the sizes at which readers go from their buffer to reading in place and back.
TEST(TFRecord, ReadsRecordsOfAllSizesInAnyOrder) {
  const TemporaryDirectory directory;
  const std::string path = directory.path("a.tfrecord");
  Texts written;
  uint64_t state = 7;
  TFRecordWriter writer(path);
  for (const size_t size :
       {0,       1,       100, 4080,    4096,    32'752, 32'767,  32'768, 65'536, 131'072,
        262'144, 300'000, 5,   131'071, 131'073, 12,     600'000, 0,      40'000, 4096}) {
    std::string record(size, '\0');
    for (char& c : record) c = static_cast<char>((state = state * 6364136223846793005u + 1) >> 56);
    writer.write(record);
    written.push_back(std::move(record));
  }
  writer.close();
  EXPECT_EQ(texts(tfrecord(path)), written);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(texts(tfrecord(directory.file("a.gz", gzip(bytes)))), written);
  for (size_t skipped = 0; skipped < written.size(); ++skipped) {
    Iterator it = tfrecord(path).iterator();
    for (size_t i = 0; i < skipped; ++i) it.next();
    Iterator restored = tfrecord(path).iterator(it.save());
    EXPECT_EQ(restored.next().to<std::string>(), written[skipped]);
  }
}

TEST(TFRecord, WritesWhatItReads) {
  const TemporaryDirectory directory;
  const std::string path = directory.path("a.tfrecord");
  const std::string large(1'000'000, 'x');
  {
    TFRecordWriter writer(path);
    for (const std::string& record : {std::string("one"), std::string(), large})
      writer.write(record);
    writer.close();
  }
  EXPECT_EQ(texts(tfrecord(path)), (Texts{"one", "", large}));
  EXPECT_ERROR(Code::NotFound, "cannot create", TFRecordWriter(directory.path("no/such")));
}

// Unavailable would say that a peer is lost, for which callers wait.
TEST(Readers, SayThatDescriptorsAreMissing) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a", "text");
  const std::string cannot_read = "cannot read '" + path + "': Too many open files";
  const NoDescriptors none;
  EXPECT_ERROR(Code::ResourceExhausted, cannot_read, text_lines(path).iterator().next());
  EXPECT_ERROR(Code::ResourceExhausted, cannot_read, tfrecord(path).iterator().next());
  EXPECT_ERROR(Code::ResourceExhausted, cannot_read, read_npy(path));
}

TEST(Writers, SayWhichFileCannotBeWrittenAndWhy) {
  const TemporaryDirectory directory;
  const std::string in_the_way = directory.path(".");
  const std::string cannot_make = "cannot create '" + in_the_way + "': Is a directory";
  EXPECT_ERROR(Code::FailedPrecondition, cannot_make, TFRecordWriter(in_the_way));
  EXPECT_ERROR(Code::FailedPrecondition, cannot_make, write_npy(in_the_way, Tensor(1)));
  const std::string full = "'/dev/full': No space left on device";
  EXPECT_ERROR(Code::ResourceExhausted, full, write_npy("/dev/full", Tensor(1)));
  TFRecordWriter writer("/dev/full");
  writer.write("a record");
  EXPECT_ERROR(Code::ResourceExhausted, full, writer.close());
  const std::string path = directory.path("a.tfrecord");
  const NoDescriptors none;
  EXPECT_ERROR(Code::ResourceExhausted, "'" + path + "': Too many open files",
               TFRecordWriter(path));
}

TEST(Example, RoundTrips) {
  const Element element = Element::map({{"image", Tensor({1.f, 2.f, 3.f, 4.f})},
                                        {"label", Tensor(int64_t{7})},
                                        {"name", Tensor({"a", "b"})}});
  const std::string bytes = make_example(element);
  const Features features = {{"image", {kFloat32, {2, 2}}},
                             {"label", {kInt64}},
                             {"name", {kString, {-1}}},
                             {"more", {kInt64, {}, Tensor(int64_t{3})}}};
  const Element parsed = parse_example(bytes, features);
  EXPECT_EQ(parsed["image"].tensor().shape(), (Shape{2, 2}));
  EXPECT_EQ(parsed["label"].to<int64_t>(), 7);
  EXPECT_EQ(parsed["name"].tensor().to_vector<std::string>(), (Texts{"a", "b"}));
  EXPECT_EQ(parsed["more"].to<int64_t>(), 3);
  const auto dataset = from_tensors(Tensor(bytes)).map(example_parser(features));
  EXPECT_EQ((*dataset.begin())["label"].to<int64_t>(), 7);
}

TEST(Cifar, SplitsRecords) {
  const TemporaryDirectory directory;
  std::string record(1, '\x07');
  record += std::string(3072, '\x11');
  const auto dataset = cifar10(directory.file("data_batch_1.bin", record + record));
  EXPECT_EQ(dataset.element_spec()->to_string(), "(uint8 (3, 32, 32), int64 ())");
  int64_t sum = 0;
  for (auto [image, label] : dataset) sum += label.to<int64_t>() * image.at<int64_t>({2, 31, 31});
  EXPECT_EQ(sum, 2 * 7 * 17);
  std::string fine("\x02\x63", 2);
  fine += std::string(3072, '\0');
  const Element both = *cifar100(directory.file("train.bin", fine)).begin();
  EXPECT_EQ(both[2].to<int64_t>(), 99);
}

TEST(Mnist, IsReadFromDebiansPackage) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist")) {
    GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  }
  const auto [train, test] = fashion_mnist();
  EXPECT_EQ(train.cardinality(), 60000);
  EXPECT_EQ(test.cardinality(), 10000);
  EXPECT_EQ(test.element_spec()->to_string(), "(uint8 (28, 28), uint8 ())");
  EXPECT_ERROR(Code::NotFound, "apt install dataset-fashion-mnist", fashion_mnist("/nowhere"));
  EXPECT_ERROR(Code::NotFound, "dataset-fashion-mnist", mnist("/nowhere"));
}

int64_t resident_megabytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6)) / 1024;
  }
  return 0;
}

TEST(Readers, AFileLargerThanMemoryShouldBeTakesLittle) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("sparse", "");
  std::filesystem::resize_file(path, uint64_t{1} << 30);
  const int64_t before = resident_megabytes();
  int64_t most = before;
  int64_t count = 0;
  for (const Element& record : fixed_length_records(path, 1 << 20).prefetch(4)) {
    EXPECT_EQ(record.size(), 1u);
    if (++count % 64 == 0) most = std::max(most, resident_megabytes());
  }
  EXPECT_EQ(count, 1024);
  // A few records; AddressSanitizer keeps freed ones for a while.
  EXPECT_LE(most - before, 450);
}

// Remembers where the bytes of a text were read to.
class WatchedSource : public internal::ByteSource {
 public:
  using Places = std::vector<std::span<const std::byte>>;
  WatchedSource(std::string text, std::shared_ptr<Places> places)
      : text_(std::move(text)), places_(std::move(places)) {}

  size_t read(std::span<std::byte> out) override {
    const size_t count = std::min(out.size(), text_.size() - at_);
    std::memcpy(out.data(), text_.data() + at_, count);
    at_ += count;
    places_->push_back(out.first(count));
    return count;
  }
  int64_t left() const override { return static_cast<int64_t>(text_.size() - at_); }
  const std::string& name() const override { return name_; }

 private:
  const std::string text_;
  const std::shared_ptr<Places> places_;
  const std::string name_ = "watched";
  size_t at_ = 0;
};

TEST(Idx, BatchesAreReadStraightIntoTheirMemory) {
  std::string text("\0\0\x08\x02\0\0\x04\0\0\0\x04\0", 12);  // 1024 rows of 1024
  for (int i = 0; i < 1024; ++i) text += std::string(1024, static_cast<char>(i));
  const auto places = std::make_shared<WatchedSource::Places>();
  internal::BufferedBytes bytes(std::make_unique<WatchedSource>(text, places));
  const internal::ArrayHeader header = internal::read_idx_header(bytes);
  internal::ArrayRows rows("Idx", std::move(bytes), header);
  size_t elsewhere = 0;
  for (int batch = 0; batch < 4; ++batch) {
    const Tensor read = rows.next_block(256).rows;
    const auto memory = std::as_bytes(read.data<uint8_t>());
    for (const auto& place : *places) {
      const bool inside = place.data() >= memory.data() &&
                          place.data() + place.size() <= memory.data() + memory.size();
      elsewhere += inside ? 0 : place.size();
    }
    places->clear();
    EXPECT_EQ(read.data<uint8_t>()[5 * 1024 + 1023], (batch * 256 + 5) % 256);
  }
  EXPECT_LE(elsewhere, 4096u);  // the header, and what stood behind it in the buffer
}

TEST(Readers, GoOnWhereTheyWereSaved) {
  const TemporaryDirectory directory;
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += std::to_string(i) + (i == 13 ? ",x,\n" : ",2\n");
  const std::string plain = directory.file("a.csv", lines);
  const std::string zipped = directory.file("b.csv", gzip(lines));
  {
    TFRecordWriter writer(directory.path("c"));
    for (int i = 0; i < 20; ++i) writer.write(std::string(static_cast<size_t>(i), 'r'));
    writer.close();
  }
  write_npy(directory.path("d.npy"), Tensor({{1, 2}, {3, 4}, {5, 6}}));
  const std::vector<Dataset> all = {
      csv({plain, zipped}, {{kInt64}, {kInt64}}, {.header = false}),
      csv({plain, zipped}, {{kInt64}, {kInt64}}, {.header = false}).batch(7),
      text_lines({zipped, plain}).shuffle(9, {.seed = 1}).batch(3),
      tfrecord({directory.path("c"), directory.path("c")}).prefetch(3),
      npy({directory.path("d.npy"), directory.path("d.npy")}),
      fixed_length_records(plain, 1).batch(10)};
  for (const Dataset& dataset : all) {
    for (int steps = 0; steps < 30; steps += 3) {
      Iterator it = dataset.iterator();
      for (int i = 0; i < steps; ++i) (void)capture_status([&] { it.next_optional(); });
      const std::string position = it.save();
      EXPECT_EQ(rest_of(dataset.iterator(position)), rest_of(it)) << dataset.to_string();
    }
  }
}

}  // namespace
}  // namespace cohort::data
