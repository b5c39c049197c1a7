// Loaded into every task that `cohort run` starts (LD_PRELOAD). A task that is about to die writes
// a report: the signal, the uncaught exception, and the frames of the stack. The launcher reads the
// report (src/launch/task_ending.cc). A thread that is asked where it is (stack_question.h) writes
// its stack and goes on. Standard output becomes line-buffered, so that the launcher has the last
// lines of the task.
//
// Signal handlers call only functions that are safe there.

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <typeinfo>

#include "base/backtrace_text.h"
#include "launch/preload/stack_question.h"

namespace {

constexpr std::array kSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
constexpr int kMaxFrames = 64;
constexpr size_t kHandlerStackBytes = 64 << 10;
// A fault this close to the stack pointer is a stack overflow.
constexpr uintptr_t kNearStack = 64 << 10;

char report_path[4096];
char stack_path[sizeof report_path];
std::terminate_handler earlier_terminate = nullptr;
volatile std::sig_atomic_t reported = 0;

// A file that is written in pieces.
class Report {
 public:
  enum class Before { Removed, Kept };
  Report(const char* path, Before what_was_there)
      : fd_(open(path,
                 O_WRONLY | O_CREAT | O_CLOEXEC |
                     (what_was_there == Before::Removed ? O_TRUNC : O_APPEND),
                 0600)) {}
  ~Report() { close(fd_); }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  Report& operator<<(std::string_view text) {
    [[maybe_unused]] const ssize_t written = write(fd_, text.data(), text.size());
    return *this;
  }
  Report& operator<<(uintptr_t number) {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof digits, number, 16).ptr;
    return *this << std::string_view(digits, static_cast<size_t>(end - digits));
  }
  // Replaces newlines by spaces, so that the value stays one line.
  void line(std::string_view key, std::string_view value) {
    *this << key << " ";
    for (size_t begin = 0; begin <= value.size();) {
      const size_t end = std::min(value.find('\n', begin), value.size());
      *this << value.substr(begin, end - begin) << (end < value.size() ? " " : "");
      begin = end + 1;
    }
    *this << "\n";
  }
  void frames() {
    void* addresses[kMaxFrames];
    const int count = backtrace(addresses, kMaxFrames);
    for (int i = 0; i < count; ++i) {
      *this << "frame " << reinterpret_cast<uintptr_t>(addresses[i]) << "\n";
    }
  }
  // The addresses of the mapped files.
  void maps() {
    *this << "maps\n";
    const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    char block[4096];
    for (ssize_t size; (size = read(maps, block, sizeof block)) > 0;) {
      *this << std::string_view(block, static_cast<size_t>(size));
    }
    close(maps);
  }

 private:
  const int fd_;
};

uintptr_t stack_pointer([[maybe_unused]] const ucontext_t& context) {
#if defined(__x86_64__)
  return static_cast<uintptr_t>(context.uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__)
  return context.uc_mcontext.sp;
#else
  return 0;
#endif
}

bool is_stack_overflow(const siginfo_t& info, const void* context) {
  if (info.si_signo != SIGSEGV) return false;
  const auto address = reinterpret_cast<uintptr_t>(info.si_addr);
  const uintptr_t top = stack_pointer(*static_cast<const ucontext_t*>(context));
  return address < top + kNearStack && top < address + kNearStack;
}

void on_signal(int signal, siginfo_t* info, void* context) {
  if (reported == 0) {
    reported = 1;
    Report report(report_path, Report::Before::Removed);
    report << "signal " << static_cast<uintptr_t>(signal) << "\n";
    report << "code " << static_cast<uintptr_t>(info->si_code) << "\n";
    report << "address " << reinterpret_cast<uintptr_t>(info->si_addr) << "\n";
    if (is_stack_overflow(*info, context)) report << "stack_overflow\n";
    report.frames();
    report.maps();
  }
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void on_stack_question(int) {
  const int error = errno;
  {
    Report report(stack_path, Report::Before::Kept);
    report.frames();
    report << "end\n";
  }
  errno = error;
}

// Writes type and text of the uncaught exception. The stack is still that of the throw.
void on_terminate() {
  if (reported == 0) {
    reported = 1;
    Report report(report_path, Report::Before::Removed);
    if (const std::type_info* const type = abi::__cxa_current_exception_type()) {
      int status = 0;
      char* const name = abi::__cxa_demangle(type->name(), nullptr, nullptr, &status);
      report.line("exception", status == 0 ? name : type->name());
      std::free(name);
      try {
        throw;
      } catch (const std::exception& error) {
        report.line("what", cohort::internal::without_backtrace(error.what()));
      } catch (const std::string& text) {
        report.line("what", text);
      } catch (const char* text) {
        report.line("what", text == nullptr ? "" : text);
      } catch (...) {
      }
    } else {
      report << "terminate\n";
    }
    report.frames();
    report.maps();
  }
  if (earlier_terminate != nullptr) earlier_terminate();
  std::abort();
}

// Gives the calling thread a stack for signal handlers, because after an overflow its own stack has
// no room. Returns null if that fails or the thread has such a stack.
void* make_handler_stack() {
  stack_t present{};
  if (sigaltstack(nullptr, &present) != 0 || (present.ss_flags & SS_DISABLE) == 0) return nullptr;
  void* const memory = mmap(nullptr, kHandlerStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const stack_t stack{.ss_sp = memory, .ss_flags = 0, .ss_size = kHandlerStackBytes};
  sigaltstack(&stack, nullptr);
  return memory;
}

// Called at the end of a thread. The program may have replaced the stack.
void remove_handler_stack(void* memory) {
  stack_t present{};
  if (sigaltstack(nullptr, &present) != 0 || present.ss_sp != memory) return;
  const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  if (sigaltstack(&none, nullptr) == 0) munmap(memory, kHandlerStackBytes);
}

pthread_key_t stack_of_thread;
bool threads_get_stacks = false;

struct ThreadStart {
  void* (*run)(void*);
  void* argument;
};

void* run_with_handler_stack(void* memory) {
  const ThreadStart start = *static_cast<ThreadStart*>(memory);
  std::free(memory);
  pthread_setspecific(stack_of_thread, make_handler_stack());
  return start.run(start.argument);
}

// A program that already handles the signal keeps its handler.
void handle(int signal) {
  struct sigaction present {};
  if (sigaction(signal, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) return;
  struct sigaction action {};
  action.sa_sigaction = &on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

void handle_stack_question() {
  struct sigaction action {};
  action.sa_handler = &on_stack_question;
  action.sa_flags = SA_RESTART;
  sigfillset(&action.sa_mask);
  sigaction(cohort::cli::stack_question(), &action, nullptr);
}

__attribute__((constructor)) void install() {
  const char* const path = std::getenv("COHORT_CRASH_FILE");
  if (path == nullptr ||
      std::strlen(path) + sizeof cohort::cli::kStackSuffix > sizeof report_path) {
    return;
  }
  std::strcpy(report_path, path);
  std::strcpy(stack_path, path);
  std::strcat(stack_path, cohort::cli::kStackSuffix);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  void* first[1];
  backtrace(first, 1);  // loads libraries now, and not in a handler
  make_handler_stack();
  threads_get_stacks = pthread_key_create(&stack_of_thread, &remove_handler_stack) == 0;
  for (const int signal : kSignals) handle(signal);
  handle_stack_question();
  earlier_terminate = std::set_terminate(&on_terminate);
}

}  // namespace

// Replaces pthread_create of the C library: the new thread has a stack for signal handlers.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  void* const memory = threads_get_stacks ? std::malloc(sizeof(ThreadStart)) : nullptr;
  if (memory == nullptr) return create(thread, attributes, run, argument);
  auto* const start = new (memory) ThreadStart{run, argument};
  const int problem = create(thread, attributes, &run_with_handler_stack, start);
  if (problem != 0) std::free(memory);
  return problem;
}
