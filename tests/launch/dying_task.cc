// A task that ends as it is told to: dying_task WAY [ARGUMENT]. With COHORT_DIES set to a task,
// such as worker:1, only that one does; the others wait to be stopped.

#undef NDEBUG
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cassert>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

[[gnu::noinline]] void throw_something() {
  throw std::runtime_error("the learning rate is a fish");
}

[[gnu::noinline]] void write_to_null() {
  volatile int* nothing = nullptr;
  *nothing = 1;
}

[[gnu::noinline]] void read_past_the_file() {
  const int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
  volatile const char* const page =
      static_cast<char*>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0));
  (void)page[0];
}

[[gnu::noinline]] void divide_by_zero() {
  volatile int zero = 0, seven = 7;
  volatile int result = seven / zero;
  (void)result;
}

[[gnu::noinline]] int recurse(int depth) {
  if (depth < 0) return 0;  // never
  volatile char block[1024];
  block[0] = static_cast<char>(depth);
  return recurse(depth + 1) + block[0];
}

[[gnu::noinline]] void fail_an_assertion() {
  const int replicas = 0;
  assert(replicas > 0);
}

[[gnu::noinline]] void wait_for_oneself() {
  std::mutex first, second;
  first.lock();
  second.lock();
  std::thread other([&] { first.lock(); });
  second.lock();
}

// Until the limit ends it.
[[gnu::noinline]] void take_all_memory() {
  std::vector<char*> blocks;
  for (;;) {
    constexpr size_t kBlock = 8 << 20;
    blocks.push_back(new char[kBlock]);
    std::memset(blocks.back(), 1, kBlock);
  }
}

// Waits to be stopped. With a child of its own, which a launcher does not know.
void wait(const std::string& file) {
  if (fork() == 0) {
    for (;;) pause();
  }
  std::ofstream(file, std::ios::app) << getpid() << std::endl;
  for (;;) pause();
}

// As a daemon does: out of the task's group and session. Writes both numbers to the file.
void leave_a_daemon(const std::string& file) {
  if (fork() == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    std::ofstream(file + ".tmp") << getpid();
    std::rename((file + ".tmp").c_str(), file.c_str());
    for (;;) pause();
  }
  while (access(file.c_str(), F_OK) != 0) usleep(1000);
}

void write_without_end() {
  for (;;) std::puts("one line after the other");
}

void overflow_in_a_thread() {
  std::thread([] { recurse(0); }).join();
}

void forget_a_thread() {
  std::thread([] {
    for (;;) pause();
  });
}

// Listens for a moment at the port that belongs to this task, as a server does.
int listen_at(const std::string& port) {
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(port)));
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool listens =
      bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && listen(fd, 1) == 0;
  if (!listens) std::perror("listen");
  usleep(100'000);  // so that all of them do at the same time
  return listens ? 0 : 1;
}

// The port of this task in TF_CONFIG, whose addresses are in the order of the ranks.
std::string own_port() {
  const std::string config = std::getenv("TF_CONFIG");
  size_t at = config.find("127.0.0.1:");
  for (int rank = std::atoi(std::getenv("RANK")); rank > 0; --rank) {
    at = config.find("127.0.0.1:", at + 1);
  }
  return config.substr(at + std::strlen("127.0.0.1:"), 5);
}

// Dies of SIGSEGV until so many have: one line each in the file.
int die_some_times(const std::string& file, const std::string& times) {
  std::ifstream before(file);
  int count = 0;
  for (std::string line; std::getline(before, line);) ++count;
  if (count == std::stoi(times)) return 0;
  std::ofstream(file, std::ios::app) << "died\n" << std::flush;
  std::raise(SIGSEGV);
  return 1;
}

int end(const std::string& way, const std::vector<std::string>& arguments) {
  const std::map<std::string, std::function<void()>> ways = {
      {"throw", throw_something},
      {"abort", [] { std::abort(); }},
      {"segv", write_to_null},
      {"bus", read_past_the_file},
      {"fpe", divide_by_zero},
      {"stack", [] { recurse(0); }},
      {"assert", fail_an_assertion},
      {"deadlock", wait_for_oneself},
      {"memory", take_all_memory},
      {"term", [] { std::raise(SIGTERM); }},
      {"kill", [] { std::raise(SIGKILL); }},
      {"text", [] { throw "a text and no exception"; }},
      {"backtrace",
       [] {
         throw std::runtime_error(
             "too few rows\nException raised from check at norm.cpp:81 (most recent call "
             "first):\nframe #0: c10::Error::Error()\n");
       }},
      {"terminate", forget_a_thread},
      {"thread", overflow_in_a_thread},
      {"endless", write_without_end},
      {"colours",
       [] {
         std::puts("10 %\r90 %\r\033[31m100 %\033[0m\a");
         std::exit(3);
       }},
      {"daemon", [&] { leave_a_daemon(arguments.at(0)); }},
      {"daemon_and_wait",
       [&] {
         leave_a_daemon(arguments.at(0));
         for (;;) pause();
       }},
      {"wait", [&] { wait(arguments.at(0)); }},
      {"stubborn", [&] {
         std::signal(SIGTERM, SIG_IGN);
         wait(arguments.at(0));
       }}};
  if (way == "exit") return std::stoi(arguments.at(0));
  if (way == "listen") return listen_at(own_port());
  if (way == "some") return die_some_times(arguments.at(0), arguments.at(1));
  if (way == "print") {
    std::printf("variable %s\n", std::getenv(arguments.at(0).c_str()));
    std::fprintf(stderr, "to the other stream");  // without an end of line
    return 0;
  }
  ways.at(way)();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const dies = std::getenv("COHORT_DIES");
  if (dies != nullptr && std::string(dies) != std::getenv("COHORT_TASK")) {
    for (;;) pause();
  }
  std::printf("about to end by %s\n", argv[1]);
  return end(argv[1], std::vector<std::string>(argv + 2, argv + argc));
}
