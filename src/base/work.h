/* work.h -- guesses of how long work takes, for decisions that more than one room makes. What is decided never changes
 * a result. */
#ifndef BASE_WORK_H
#define BASE_WORK_H

/* About how long one thread takes, in ns. */
static inline double base_work_ns(double flops, double bytes) {
  const double computing = flops / 50, moving = bytes / 10;
  return computing > moving ? computing : moving;
}

/* Of a step that does next to nothing, and of a task that pays for waking a thread and a copy of its result, in ns; and
 * the turns of a loop whose number is not known. */
enum { BASE_STEP_NS = 300, BASE_LEAST_TASK_NS = 40000, BASE_TURNS = 8 };
#endif
