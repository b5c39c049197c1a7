#pragma once

#include <string>

namespace cohort::internal {

// Keeps other runs away from a folder of backups while this object lives. The operating system
// frees the folder when the process ends, however it ends, so that a restarted run is not refused.
//
// Runs on other hosts are noticed where the file system shares flock() between hosts, as NFS and
// the usual cluster file systems do. Where it does not, a run that finds the note of another host's
// run warns, because that run may have been killed or may still be there.
class BackupLock {
 public:
  // Makes the folder where needed. Throws FailedPrecondition, naming host, process and run, when
  // another run has it.
  explicit BackupLock(const std::string& folder);
  ~BackupLock();
  BackupLock(const BackupLock&) = delete;
  BackupLock& operator=(const BackupLock&) = delete;

 private:
  const std::string path_;
  int file_ = -1;
};

}  // namespace cohort::internal
