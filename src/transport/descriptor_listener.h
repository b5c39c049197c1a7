#pragma once

#include <functional>
#include <list>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "transport/connection.h"

namespace cohort::internal {

// How a process gets descriptors from another process with the same host_identity(). The two agree
// elsewhere (over a connection that they trust already) on the name of a Unix socket and on a
// nonce. The process that wants the descriptors connects to that socket and sends the nonce, and
// the process that listens there answers with the descriptors.

// Waits for the processes that know its name. One thread accepts and reads all requests; none can
// hold up another. Thread-safe.
class DescriptorListener {
 public:
  DescriptorListener();
  DescriptorListener(const DescriptorListener&) = delete;
  DescriptorListener& operator=(const DescriptorListener&) = delete;
  // Waits for a running call of `arrived`; none begins afterwards.
  ~DescriptorListener();

  const std::string& name() const { return name_; }

  // Answers with send_descriptors(). Runs once on a thread of the listener, or never if no process
  // shows the nonce in time.
  using Arrived = std::function<void(FileDescriptor socket)>;
  // Makes a nonce for one process: the first that shows it.
  std::string expect(Deadline deadline, Arrived arrived);

 private:
  struct Expected {
    Deadline deadline;
    Arrived arrived;
  };
  // Of a process that has not yet sent all of it.
  struct Request {
    FileDescriptor socket;
    Deadline deadline;
    std::string received = {};
  };
  void run(const std::stop_token& stop);
  void accept();
  bool advance(Request& request);
  bool read(Request& request);
  Arrived take_expected(const std::string& nonce);

  const std::string name_;
  const FileDescriptor listener_;
  // Closing the second socket wakes the thread that waits for the first.
  std::pair<FileDescriptor, FileDescriptor> wake_;
  std::list<Request> requests_;  // belongs to the thread
  RareLog rare_log_;

  Mutex mutex_;
  std::map<std::string, Expected> expected_;  // by nonce; guarded by mutex_
  Thread thread_;
};

// The answer. Throws Unavailable when the other process is gone.
void send_descriptors(const FileDescriptor& socket, std::span<const int> descriptors);

// Asks the listener at the other end for that many. Throws PermissionDenied when the listener does
// not know the nonce, DeadlineExceeded, DataLoss when it sends anything else.
std::vector<FileDescriptor> request_descriptors(const FileDescriptor& socket,
                                                const std::string& nonce, size_t count,
                                                Deadline deadline);

}  // namespace cohort::internal
