// Runs a fuzz target over files, for compilers without libFuzzer: each file of the given
// directories and files, and damaged copies of it.
//
//   COHORT_FUZZ_COPIES=100000   that many copies of each file instead of a few
//   COHORT_FUZZ_SEED=7          other damages; it is printed first, so that a crash can be had
//   again

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

void run(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

// Cuts the end off, changes a byte, takes some out, or says some twice.
void damage(std::string& bytes, std::mt19937_64& random) {
  const size_t at = random() % bytes.size();
  const size_t some = 1 + random() % 16;
  switch (random() % 5) {
    case 0:
      return bytes.resize(at);
    case 1:
      bytes[at] = static_cast<char>(0xff);
      return;
    case 2:
      bytes[at] = static_cast<char>(random());
      return;
    case 3:
      bytes.erase(at, some);
      return;
    default:
      bytes.insert(at, bytes.substr(at, some));
  }
}

uint64_t run_around(const std::string& bytes, uint64_t copies, std::mt19937_64& random) {
  run(bytes);
  for (uint64_t i = 0; i < copies; ++i) {
    std::string damaged = bytes;
    for (uint64_t times = 1 + random() % 3; times > 0 && !damaged.empty(); --times) {
      damage(damaged, random);
    }
    run(damaged);
  }
  return 1 + copies;
}

uint64_t run_file(const std::filesystem::path& path, uint64_t copies, std::mt19937_64& random) {
  std::ifstream file(path, std::ios::binary);
  return run_around({std::istreambuf_iterator<char>(file), {}}, copies, random);
}

}  // namespace

int main(int count, char** paths) {
  const uint64_t copies = number_from_environment("COHORT_FUZZ_COPIES", 400);
  const uint64_t seed = number_from_environment("COHORT_FUZZ_SEED", 1);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  std::mt19937_64 random(seed);
  uint64_t runs = 0;
  for (int i = 1; i < count; ++i) {
    if (!std::filesystem::is_directory(paths[i])) {
      runs += run_file(paths[i], copies, random);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(paths[i])) {
      if (entry.is_regular_file()) runs += run_file(entry.path(), copies, random);
    }
  }
  std::printf("%llu inputs\n", static_cast<unsigned long long>(runs));
  return runs == 0;
}
