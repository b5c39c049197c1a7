// Runs a fuzz target over files, for compilers without libFuzzer: each file of the given
// directories and files, and a few damaged copies of it.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

void run(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

// The file, what cutting it leaves, and what changing single bytes makes of it.
int run_around(const std::string& bytes) {
  run(bytes);
  uint64_t state = bytes.size() + 1;
  constexpr int kDamages = 400;
  for (int i = 0; i < kDamages && !bytes.empty(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::string damaged = bytes;
    const size_t at = (state >> 33) % bytes.size();
    if (i % 4 == 0) {
      damaged.resize(at);
    } else {
      damaged[at] = static_cast<char>(i % 4 == 1 ? 0xff : state >> 20);
    }
    run(damaged);
  }
  return 1 + kDamages;
}

int run_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return run_around({std::istreambuf_iterator<char>(file), {}});
}

}  // namespace

int main(int count, char** paths) {
  int runs = 0;
  for (int i = 1; i < count; ++i) {
    if (!std::filesystem::is_directory(paths[i])) {
      runs += run_file(paths[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(paths[i])) {
      if (entry.is_regular_file()) runs += run_file(entry.path());
    }
  }
  std::printf("%d inputs\n", runs);
  return runs == 0;
}
