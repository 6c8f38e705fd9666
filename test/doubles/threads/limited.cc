// For LD_PRELOAD: a system that gives a process a fixed number of threads, and then EAGAIN, as a control group does.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include <atomic>

namespace {
constexpr int MOST_THREADS = 100;
std::atomic<int> started{0};
}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const Create create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (started.fetch_add(1) >= MOST_THREADS) return EAGAIN;
  return create(thread, attributes, run, argument);
}
