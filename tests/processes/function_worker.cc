// function_worker function.bin dataset.bin: a process that knows nothing of the code that was
// traced. It makes variable 'v' and an iterator over the described dataset, calls the function on
// it four times, and prints what each call gives or throws.

#include <fstream>
#include <iostream>
#include <iterator>

#include "cohort/cohort.h"
#include "cohort/dataset.h"

namespace {

using namespace cohort;

std::string contents(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void work(const char* function_file, const char* dataset_file) {
  const SerializedFunction function(contents(function_file), {{"v", Variable(0.f)}});
  const Iterator iterator = data::Dataset::deserialize(contents(dataset_file)).iterator();
  for (int i = 0; i < 4; ++i) {
    std::cout << function(iterator).at(0) << '\n';
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const Status status = capture_status([&] { work(arguments[1], arguments[2]); });
  std::cout << status.to_string() << '\n';
  return 0;
}
