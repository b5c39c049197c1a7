#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/raise.h"
#include "cohort/callbacks.h"

namespace cohort {

CsvLogger::CsvLogger(std::string path) : path_(std::move(path)) {}

void CsvLogger::on_epoch_end(Trainer& trainer, const Logs& logs) {
  if (!trainer.is_chief()) return;
  std::error_code missing;
  const bool is_new = std::filesystem::file_size(path_, missing) == 0 || missing;
  std::string header = "epoch";
  std::string line = std::to_string(trainer.progress().epoch);
  for (const auto& [name, value] : logs) {
    header += ',' + name;
    line += fmt::format(",{}", value);
  }
  std::ofstream file(path_, std::ios::app);
  if (is_new) file << header << '\n';
  file << line << '\n' << std::flush;
  if (!file) {
    internal::raise(Code::PermissionDenied, "[CsvLogger] cannot write '{}': {}", path_,
                    std::strerror(errno));
  }
}

}  // namespace cohort
