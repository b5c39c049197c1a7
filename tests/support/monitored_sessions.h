#pragma once

// What tests of MonitoredSession share.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cohort/cohort.h"
#include "cohort/graph_training.h"
#include "support/expect_error.h"

namespace cohort {

using Lines = std::vector<std::string>;

// Writes down what it is asked.
class DiaryHook : public SessionRunHook {
 public:
  explicit DiaryHook(std::string name, Lines& lines, SessionRunArgs args = {})
      : name_(std::move(name)), lines_(lines), args_(std::move(args)) {}
  void begin() override { note("begin"); }
  void after_create_session(Session&, Coordinator&) override { note("created"); }
  SessionRunArgs before_run(SessionRunContext&) override {
    note("before");
    return args_;
  }
  void after_run(SessionRunContext&, const SessionRunValues& values) override {
    note("after");
    last = values;
  }
  void end(Session&) override { note("end"); }

  SessionRunValues last;

 private:
  void note(const std::string& what) { lines_.push_back(name_ + " " + what); }
  std::string name_;
  Lines& lines_;
  SessionRunArgs args_;
};

class MonitoredSessions : public ::testing::Test {
 protected:
  MonitoredSessions() : building_(graph_.as_default()) {
    x_ = placeholder(kFloat32, {}, "x");
    double_ = x_ * 2.f;
    three_ = constant(Tensor(3.f), "three");
  }

  Graph graph_;
  Graph::Scope building_;
  Tensor x_, double_, three_;
  Lines lines_;
};

}  // namespace cohort
