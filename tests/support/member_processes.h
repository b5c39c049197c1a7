#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <array>
#include <functional>
#include <vector>

#include "collectives/access.h"
#include "support/socket_connection.h"

namespace cohort {

// The members of a group as processes, forked from this one, which must have no threads yet.
class MemberProcesses {
 public:
  // Each runs `body` and ends with what it returns.
  MemberProcesses(int size, const std::function<int(std::shared_ptr<internal::Rendezvous>)>& body) {
    std::vector<internal::Peer> peers;
    for (int rank = 0; rank < size; ++rank) {
      peers.push_back({.name = "/job:worker/task:" + std::to_string(rank)});
    }
    // ends[a][b] is a's end of the connection with b.
    std::vector<std::vector<int>> ends(size, std::vector<int>(size, -1));
    for (int a = 0; a < size; ++a) {
      for (int b = a + 1; b < size; ++b) {
        std::array<int, 2> pair{};
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) std::abort();
        ends[a][b] = pair[0];
        ends[b][a] = pair[1];
      }
    }
    for (int rank = 0; rank < size; ++rank) {
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(120);
        close_but(ends, rank);
        std::vector<std::shared_ptr<internal::Connection>> connections(size);
        for (int other = 0; other < size; ++other) {
          if (other == rank) continue;
          connections[other] = std::make_shared<SocketConnection>(ends[rank][other], peers[other]);
        }
        _exit(body(internal::make_mesh(rank, peers, std::move(connections))));
      }
      children_.push_back(child);
    }
    close_but(ends, -1);
  }
  ~MemberProcesses() {
    for (size_t rank = 0; rank < children_.size(); ++rank) {
      if (children_[rank] > 0) kill_member(static_cast<int>(rank));
    }
  }

  void kill_member(int rank) {
    kill(children_[static_cast<size_t>(rank)], SIGKILL);
    wait_for(rank);
  }
  // The exit code; -1 when a signal ended it.
  int wait_for(int rank) {
    int status = 0;
    waitpid(children_[static_cast<size_t>(rank)], &status, 0);
    children_[static_cast<size_t>(rank)] = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  // Other members' ends stay open in nobody else, so that they end with their process.
  static void close_but(const std::vector<std::vector<int>>& ends, int rank) {
    for (int other = 0; other < static_cast<int>(ends.size()); ++other) {
      if (other == rank) continue;
      for (const int end : ends[other]) {
        if (end >= 0) ::close(end);
      }
    }
  }

  std::vector<pid_t> children_;
};

}  // namespace cohort
