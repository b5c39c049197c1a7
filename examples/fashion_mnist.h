// What the program of that name is given, its arguments and the pictures; and how it compares.
#pragma once

#include <cohort/cohort.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace fashion {

using namespace cohort;

inline constexpr std::array kNames = {"T-shirt", "Trouser", "Pullover", "Dress", "Coat",
                                      "Sandal",  "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};

struct Options {
  int epochs = 8;
  int batch = 512;  // of all replicas together
  int replicas = 2;
  std::string data = "/usr/share/datasets/fashion-mnist";
};

inline int parse_number(const std::string& option, const std::string& text, int most) {
  int number = 0;
  const char* end = std::from_chars(text.data(), text.data() + text.size(), number).ptr;
  if (*end == '\0' && number >= 1 && number <= most) return number;
  throw Error(Code::InvalidArgument,
              option + " takes 1 to " + std::to_string(most) + ", not '" + text + "'");
}

inline Options parse_options(const std::vector<std::string>& words) {
  Options options;
  for (size_t i = 0; i < words.size(); i += 2) {
    const std::string& name = words[i];
    const std::string value = i + 1 < words.size() ? words[i + 1] : "";
    if (name == "--epochs") {
      options.epochs = parse_number(name, value, 1000);
    } else if (name == "--batch") {
      options.batch = parse_number(name, value, 60'000);
    } else if (name == "--replicas") {
      options.replicas = parse_number(name, value, 64);
    } else if (name == "--data" && !value.empty()) {
      options.data = value;
    } else {
      throw Error(Code::InvalidArgument,
                  name + ": use --epochs N, --batch N, --replicas N or --data DIR");
    }
  }
  return options;
}

// Pictures of 28 x 28 bytes, and which of the ten each of them shows.
struct Examples {
  Examples(const std::string& directory, const std::string& name)
      : images(
            reshape(data::read_idx(directory + "/" + name + "-images-idx3-ubyte.gz"), {-1, 784})),
        labels(data::read_idx(directory + "/" + name + "-labels-idx1-ubyte.gz")) {}
  data::Dataset batches(int64_t size, int64_t shuffled = 1) const {
    return data::from_tensor_slices(images, labels).shuffle(shuffled).batch(size);
  }
  Tensor images, labels;
};

// Examples per second, measured in turn: with all replicas, and with one.
struct Rates {
  std::vector<double> all = {}, one = {};
};

// Which was faster, and how much. Where the figures of one kind differ from round to round by more
// than the two kinds do, they do not tell.
inline std::string describe(Rates rates, int replicas) {
  std::ranges::sort(rates.all);
  std::ranges::sort(rates.one);
  const double all = rates.all[rates.all.size() / 2], one = rates.one[rates.one.size() / 2];
  const double spread =
      std::max(rates.all.back() - rates.all.front(), rates.one.back() - rates.one.front());
  char text[200];
  if (spread > std::abs(all - one)) {
    std::snprintf(text, sizeof text,
                  "The machine was too busy to tell whether %d replicas are faster than one.",
                  replicas);
  } else {
    std::snprintf(text, sizeof text,
                  "%d replicas are %.2f times as fast as one: %.0f examples per second over %.0f.",
                  replicas, all / one, all, one);
  }
  return text;
}

}  // namespace fashion
