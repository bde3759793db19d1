// parallel_tbb.cpp -- oneTBB's threads. While the caller waits it takes on no other work of the program's.
extern "C" {
#include "parallel_priv.h"
}

#include <atomic>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

extern "C" void run_parallel(uint32_t parts, void (*part)(void *user, uint32_t i), void *user) {
  std::atomic<bool> over{false};
  tbb::this_task_arena::isolate([&] {
    tbb::task_group others;
    try {
      for (uint32_t i = 1; i < parts; i++)
        others.run([&over, part, user, i] {
          if (!over) part(user, i);
        });
    } catch (...) { // no memory for a task: those that there are will do
    }
    part(user, 0);
    over = true;
    others.wait();
  });
}
