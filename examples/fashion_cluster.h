// What the programs that train on a cluster have in common: their arguments, their data and their
// model.
#pragma once

#include <cohort/cohort.h>

#include <charconv>
#include <cstdio>
#include <string>
#include <vector>

namespace fashion {

using namespace cohort;

struct Options {
  TaskList ps, workers;  // addresses
  std::string job;       // what this process is
  int task = 0;
  int epochs = 3;
  int batch = 192;  // of all workers together
  int sync = 0;     // between graphs: gradients per update; 0 = workers do not wait for each other
  std::string checkpoints = {};  // between graphs: a directory of the chief's
  std::string data = "/usr/share/datasets/fashion-mnist";

  ClusterSpec cluster() const {
    return ClusterSpec(std::map<std::string, TaskList>{{"ps", ps}, {"worker", workers}});
  }
};

inline TaskList split(const std::string& list) {
  TaskList parts;
  for (size_t from = 0; from <= list.size();) {
    const size_t comma = std::min(list.find(',', from), list.size());
    parts.push_back(list.substr(from, comma - from));
    from = comma + 1;
  }
  return parts;
}

inline int number(const std::string& option, const std::string& text) {
  int value = 0;
  const char* end = std::from_chars(text.data(), text.data() + text.size(), value).ptr;
  if (*end == '\0' && !text.empty() && value >= 0 && value <= 60'000) return value;
  throw Error(Code::InvalidArgument, option + " takes a number, not '" + text + "'");
}

inline Options parse_options(const std::vector<std::string>& words) {
  Options options;
  for (size_t i = 0; i < words.size(); i += 2) {
    const std::string& name = words[i];
    const std::string value = i + 1 < words.size() ? words[i + 1] : "";
    if (name == "--ps") {
      options.ps = split(value);
    } else if (name == "--workers") {
      options.workers = split(value);
    } else if (name == "--job") {
      options.job = value;
    } else if (name == "--task") {
      options.task = number(name, value);
    } else if (name == "--epochs") {
      options.epochs = number(name, value);
    } else if (name == "--batch") {
      options.batch = number(name, value);
    } else if (name == "--sync") {
      options.sync = number(name, value);
    } else if (name == "--checkpoints") {
      options.checkpoints = value;
    } else if (name == "--data") {
      options.data = value;
    } else {
      throw Error(Code::InvalidArgument, name +
                                             " is none of --ps, --workers, --job, --task, "
                                             "--epochs, --batch, --sync, --checkpoints, --data");
    }
  }
  return options;
}

// Pictures of 28 x 28 bytes, and which of ten kinds of clothes each of them shows.
struct Examples {
  Examples(const std::string& directory, const std::string& name)
      : images(
            reshape(data::read_idx(directory + "/" + name + "-images-idx3-ubyte.gz"), {-1, 784})),
        labels(data::read_idx(directory + "/" + name + "-labels-idx1-ubyte.gz")) {}
  int64_t size() const { return images.shape()[0]; }
  Tensor images, labels;
};

// A network of two layers. Where its variables go, the caller's device scopes say.
class Model {
 public:
  // `place(i)`: the device of layer i's variables; empty when the scopes say it.
  explicit Model(const std::function<std::string(int)>& place = [](int) { return ""; }) {
    layer("hidden", {784, 128}, place(0));
    layer("output", {128, 10}, place(1));
  }

  Tensor operator()(const Tensor& images) const {
    const Tensor input = cast(images, kFloat32) / 255.f;
    const Tensor hidden = nn::relu(matmul(input, variables_[0]) + variables_[1]);
    return matmul(hidden, variables_[2]) + variables_[3];
  }
  const std::vector<Variable>& variables() const { return variables_; }

 private:
  void layer(const std::string& name, const Shape& shape, const std::string& place) {
    const NameScope scope(name);
    auto on = device(place);
    variables_.push_back(get_variable("kernel", {.shape = shape}));
    variables_.push_back(get_variable("bias", {.shape = {shape[1]}, .initializer = zeros()}));
  }

  std::vector<Variable> variables_;
};

// The share of the guesses that are right.
inline double accuracy(const Tensor& logits, const Tensor& labels) {
  return mean(cast(equal(argmax(logits, 1), labels), kFloat64)).to<double>();
}

// Runs `body` and tells of errors as a program should.
template <typename Body>
int run_main(const char* program, Body&& body) {
  try {
    body();
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s%s\n", program, error.what(),
                 error.code() == Code::NotFound
                     ? "; Debian's package dataset-fashion-mnist has the files"
                     : "");
    return 1;
  }
}

}  // namespace fashion
