#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "cohort/device.h"
#include "cohort/event_file.h"
#include "cohort/events.pb.h"
#include "cohort/ops.h"
#include "cohort/readers.h"
#include "cohort/summary.h"
#include "support/expect_error.h"
#include "support/file_size_limit.h"
#include "support/no_descriptors.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

std::vector<events::Event> raw_events(const std::string& path) {
  std::vector<events::Event> all;
  for (const data::Element& record : data::tfrecord(path)) {
    EXPECT_TRUE(all.emplace_back().ParseFromString(record.tensor().to<std::string>()));
  }
  return all;
}

const events::Summary::Value& value_of(const events::Event& event) {
  return event.summary().value(0);
}

class SummaryWriterTest : public testing::Test {
 protected:
  // The only event after the first.
  events::Event added(const std::function<void(SummaryWriter&)>& add) {
    SummaryWriter writer(directory_.path() + "/run");
    add(writer);
    writer.close();
    const std::vector<events::Event> events = raw_events(writer.path());
    EXPECT_EQ(events.size(), 2u);
    return events.back();
  }
  TemporaryDirectory directory_;
};

TEST_F(SummaryWriterTest, BeginsAsTensorBoardExpects) {
  SummaryWriter writer(directory_.path() + "/a/b");
  const std::vector<events::Event> events = raw_events(writer.path());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_GT(events[0].wall_time(), 1.7e9);
  const std::string name = std::filesystem::path(writer.path()).filename();
  EXPECT_TRUE(name.starts_with("events.out.tfevents.")) << name;
}

TEST_F(SummaryWriterTest, TwoWritersOfOneDirectoryHaveTwoFiles) {
  SummaryWriter first(directory_.path()), second(directory_.path(), {.filename_suffix = ".eval"});
  EXPECT_NE(first.path(), second.path());
  EXPECT_TRUE(second.path().ends_with(".eval"));
}

TEST_F(SummaryWriterTest, TellsTensorBoardWhichPointsOfOlderFilesToDrop) {
  SummaryWriter writer(directory_.path(), {.purge_step = 7});
  const std::vector<events::Event> events = raw_events(writer.path());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].step(), 7);
  EXPECT_EQ(events[1].session_log().status(), 1);
}

TEST_F(SummaryWriterTest, WritesScalars) {
  const events::Event event = added([](auto& writer) { writer.add_scalar("loss", 0.5, 7); });
  EXPECT_EQ(event.step(), 7);
  EXPECT_EQ(value_of(event).tag(), "loss");
  EXPECT_EQ(value_of(event).simple_value(), 0.5f);
}

TEST_F(SummaryWriterTest, ZeroIsAValue) {
  const events::Event event = added([](auto& writer) { writer.add_scalar("loss", 0, 0); });
  EXPECT_EQ(value_of(event).value_case(), events::Summary::Value::kSimpleValue);
}

TEST_F(SummaryWriterTest, HistogramsCountEveryFiniteElementOnce) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor values({{-3.f, 0.f, 0.25f}, {0.25f, 100.f, nan}});
  const auto histogram =
      value_of(added([&](auto& writer) { writer.add_histogram("w", values, 1); })).histo();
  EXPECT_EQ(histogram.num(), 5);
  EXPECT_EQ(histogram.min(), -3);
  EXPECT_EQ(histogram.max(), 100);
  EXPECT_EQ(histogram.sum(), 97.5);
  EXPECT_EQ(histogram.sum_squares(), 9 + 2 * 0.0625 + 10'000);
  ASSERT_EQ(histogram.bucket_size(), histogram.bucket_limit_size());
  double counted = 0;
  double below = 0;  // what lies at or under 0
  for (int i = 0; i < histogram.bucket_size(); ++i) {
    counted += histogram.bucket(i);
    if (histogram.bucket_limit(i) <= 0) below += histogram.bucket(i);
    if (i > 0) {
      EXPECT_LT(histogram.bucket_limit(i - 1), histogram.bucket_limit(i));
    }
  }
  EXPECT_EQ(counted, 5);
  EXPECT_EQ(below, 2);
  EXPECT_EQ(histogram.bucket(0), 0) << "the lower limit of the first";
}

TEST_F(SummaryWriterTest, HistogramOfNothingIsEmpty) {
  const Tensor nothing = zeros({0}, kFloat32);
  EXPECT_EQ(value_of(added([&](auto& w) { w.add_histogram("w", nothing, 1); })).histo().num(), 0);
}

TEST_F(SummaryWriterTest, ImagesArePngFiles) {
  const auto image = value_of(added([](auto& writer) {
                       writer.add_image("digit", zeros({3, 4, 5}, kFloat32), 1);
                     })).image();
  EXPECT_EQ(image.height(), 4);
  EXPECT_EQ(image.width(), 5);
  EXPECT_EQ(image.colorspace(), 3);
  EXPECT_TRUE(image.encoded_image_string().starts_with("\x89PNG\r\n\x1a\n"));
}

TEST_F(SummaryWriterTest, TextIsForTheTextPlugin) {
  const auto value = value_of(added([](auto& writer) { writer.add_text("note", "**bold**", 3); }));
  EXPECT_EQ(value.metadata().plugin_data().plugin_name(), "text");
  ASSERT_EQ(value.tensor().string_val_size(), 1);
  EXPECT_EQ(value.tensor().string_val(0), "**bold**");
}

TEST_F(SummaryWriterTest, GraphsHaveNodesInputsAndDevices) {
  Graph graph;
  {
    const auto building = graph.as_default();
    const auto on = device("/job:ps/task:0");
    const Tensor x = placeholder(kFloat32, {2}, "x");
    const auto after = control_dependencies({x});
    identity(x + 1.f);
  }
  events::GraphDef written;
  const events::Event event = added([&](auto& writer) { writer.add_graph(graph); });
  ASSERT_TRUE(written.ParseFromString(event.graph_def()));
  ASSERT_EQ(written.node_size(), static_cast<int>(graph.size()));
  EXPECT_EQ(written.node(0).name(), "x");
  EXPECT_EQ(written.node(0).op(), "Placeholder");
  EXPECT_NE(written.node(0).device().find("ps"), std::string::npos);
  const auto& last = written.node(written.node_size() - 1);
  EXPECT_EQ(last.input(last.input_size() - 1), "^x");
}

TEST_F(SummaryWriterTest, WhatIsFlushedCanBeRead) {
  SummaryWriter writer(directory_.path());
  writer.add_scalar("loss", 1, 1);
  writer.flush();
  EXPECT_EQ(raw_events(writer.path()).size(), 2u);
}

TEST_F(SummaryWriterTest, FlushesByItselfAfterTheInterval) {
  SummaryWriter writer(directory_.path(), {.flush_interval = std::chrono::milliseconds(0)});
  writer.add_scalar("loss", 1, 1);
  EXPECT_EQ(raw_events(writer.path()).size(), 2u);
}

TEST_F(SummaryWriterTest, EventFilesAreRead) {
  SummaryWriter writer(directory_.path());
  writer.add_scalar("loss", 0.5, 7);
  writer.add_histogram("w", Tensor({1.f, 3.f}), 8);
  writer.add_image("digit", zeros({3, 4, 5}, kFloat32), 8);
  writer.add_text("note", "begun", 9);
  writer.close();
  const std::vector<SummaryEvent> events = read_events(writer.path());
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].tag, "loss");
  EXPECT_EQ(events[0].step, 7);
  EXPECT_EQ(std::get<double>(events[0].value), 0.5);
  EXPECT_EQ(std::get<SummaryHistogram>(events[1].value).sum, 4);
  EXPECT_EQ(std::get<SummaryImage>(events[2].value).width, 5);
  EXPECT_EQ(std::get<SummaryText>(events[3].value).text, "begun");
}

TEST_F(SummaryWriterTest, ADamagedEventFileIsAnErrorThatSaysWhere) {
  SummaryWriter writer(directory_.path());
  writer.add_scalar("loss", 0.5, 7);
  writer.close();
  std::filesystem::resize_file(writer.path(), std::filesystem::file_size(writer.path()) - 1);
  EXPECT_ERROR(Code::DataLoss, writer.path(), read_events(writer.path()));
  EXPECT_ERROR(Code::NotFound, "/no/such", read_events("/no/such/file"));
}

// Unavailable would say that a peer is lost, for which callers wait.
TEST_F(SummaryWriterTest, SaysWhichFileCannotBeWrittenAndWhy) {
  const std::string file = directory_.write("file", "x");
  EXPECT_ERROR(Code::FailedPrecondition, "'" + file + "': Not a directory", SummaryWriter(file));
  EXPECT_ERROR(Code::FailedPrecondition, "'" + file + "/run': Not a directory",
               SummaryWriter(file + "/run"));
  {
    const NoDescriptors none;
    const Status status = error_of([&] { SummaryWriter writer(directory_.path()); });
    EXPECT_EQ(status.code, Code::ResourceExhausted) << status;
    EXPECT_NE(status.message.find("'" + directory_.path() + "/events"), std::string::npos);
    EXPECT_NE(status.message.find("Too many open files"), std::string::npos) << status.message;
  }
  SummaryWriter writer(directory_.path());
  const FileSizeLimit full(1 << 16);
  EXPECT_ERROR(Code::ResourceExhausted, "'" + writer.path() + "': File too large",
               writer.add_text("notes", std::string(1 << 17, 'x'), 1));
}

TEST_F(SummaryWriterTest, RefusesWhatCannotBeShown) {
  SummaryWriter writer(directory_.path());
  EXPECT_ERROR(Code::InvalidArgument, "tag", writer.add_scalar("", 1, 1));
  EXPECT_ERROR(Code::InvalidArgument, "not UTF-8", writer.add_text("\xff", "text", 1));
  EXPECT_ERROR(Code::InvalidArgument, "strings", writer.add_histogram("s", Tensor("text"), 1));
  for (const Tensor& image :
       {zeros({2, 4, 5}, kUInt8), zeros({4, 5}, kInt32), zeros({0, 5}, kUInt8)}) {
    EXPECT_ERROR(Code::InvalidArgument, image.shape().to_string(), writer.add_image("i", image, 1));
  }
  writer.close();
  writer.close();
  EXPECT_ERROR(Code::FailedPrecondition, "closed", writer.add_scalar("loss", 1, 1));
  EXPECT_ERROR(Code::FailedPrecondition, writer.path(), SummaryWriter(writer.path()));
}

}  // namespace
}  // namespace cohort
