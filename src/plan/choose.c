/* choose.c -- how many samples of a batch to take at a time, and for each thread. Pure functions of numbers, so that
 * they are tested without a model.
 *
 * Small parts keep what a step leaves to the next one in a cache; large ones read the weights less often and fill the
 * tiles of kernels better. Neighbouring steps may differ: what passes between them then goes through memory. The parts
 * of least cost are found from front to back, for every part the cheapest way to come to it. */
#include "plan/bind.h"

enum { MOST_OPTIONS = 12 }; /* the whole batch, and that halved again and again */

static double calls_for(int64_t samples, int64_t part) { return (double)((samples - 1) / part + 1); }

/* The share of a working set that is gone when it is needed again. */
static double lost(double bytes, double cache) {
  double over = bytes / cache - 1;
  return over < 0 ? 0 : over < 1 ? over : 1;
}

static double step_ns(const base_speed *speed, const plan_load *l, int64_t samples, int64_t part, double cache) {
  if (l->inner + l->outer == 0) return 0;
  return (double)samples * l->inner / speed->memory_per_ns * lost((double)part * (l->inner + l->outer), cache) +
         calls_for(samples, part) * (l->shared / speed->weights_per_ns + speed->step_ns);
}

/* Of running the step, but not the one before (or the other way round), in such parts: what is passed is written, and
 * lies beside what is read, as a whole. */
static double change_ns(const base_speed *speed, const plan_load *l, int64_t samples, int64_t part, double cache) {
  const double bytes = (double)samples * l->passed;
  return part == samples ? 0 : bytes / speed->memory_per_ns * lost(2 * bytes, cache);
}

/* Whole first; no part twice. */
static uint32_t list_options(int64_t samples, int64_t *options) {
  uint32_t count = 0;
  for (int64_t parts = 1; count < MOST_OPTIONS && parts <= samples; parts *= 2) {
    options[count++] = (samples - 1) / parts + 1;
    if (options[count - 1] == 1) break;
  }
  return count;
}

bool plan_choose_parts(base_arena *arena, const base_speed *speed, const plan_load *loads, uint32_t count,
                       int64_t samples, double cache, int64_t *part) {
  int64_t options[MOST_OPTIONS];
  double best[MOST_OPTIONS] = {0};
  const uint32_t choices = list_options(samples, options);
  uint8_t *came_from = base_new(arena, uint8_t, (size_t)count * MOST_OPTIONS + 1); /* per step and option */
  if (!came_from) return false;
  uint32_t least = 0;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t from = 0; /* the option that it is cheapest to leave here */
    for (uint32_t o = 1; o < choices; o++)
      if (best[o] + change_ns(speed, &loads[i], samples, options[o], cache) <
          best[from] + change_ns(speed, &loads[i], samples, options[from], cache))
        from = o;
    const double leave = best[from] + change_ns(speed, &loads[i], samples, options[from], cache);
    least = 0;
    for (uint32_t o = 0; o < choices; o++) {
      const double change = leave + change_ns(speed, &loads[i], samples, options[o], cache);
      came_from[i * MOST_OPTIONS + o] = (uint8_t)(best[o] <= change ? o : from);
      if (change < best[o]) best[o] = change;
      best[o] += step_ns(speed, &loads[i], samples, options[o], cache);
      if (best[o] < best[least]) least = o;
    }
  }
  for (uint32_t i = count; i-- > 0; least = came_from[i * MOST_OPTIONS + least]) part[i] = options[least];
  return true;
}

/* ---- shares ---- */

enum { LARGE_SHARE = 8 /* samples; of more, more shares make up for a thread that is held up */, MOST_ROUNDS = 8 };
static const double least_bytes = 512 * 1024; /* of a thread, which pay for its own start and end */
/* So much longer than even shares may the longest thread take: many threads that share each step take longer, as each
 * step ends when its last task does. */
enum { MANY_THREADS = 8 };
static const double uneven = 1.1, uneven_of_many = 1.25;

/* Samples of the thread with the most work, over those of even work. */
static double unevenness(int64_t samples, int64_t share, uint32_t threads) {
  const int64_t shares = (samples - 1) / share + 1, rounds = (shares - 1) / threads + 1;
  return (double)rounds * (double)share * threads / (double)samples;
}

/* Threads that work for themselves find in their own caches what their last step has left, but each of them reads all
 * weights. */
int64_t plan_choose_share(const plan_load *loads, uint32_t count, int64_t samples, uint32_t threads) {
  double passed = 0, shared = 0;
  for (uint32_t i = 0; i < count; i++) {
    passed += (loads[i].inner + loads[i].outer) * (double)samples;
    shared += loads[i].shared;
  }
  const double most = threads < MANY_THREADS ? uneven : uneven_of_many;
  if (threads < 2 || passed < least_bytes * threads) return 0;
  const int64_t least = 1 + (samples - 1) / threads / LARGE_SHARE;
  /* In one round some threads may get no sample. */
  for (int64_t rounds = least; rounds < least + MOST_ROUNDS && (rounds == 1 || rounds * threads <= samples); rounds++) {
    const int64_t share = (samples - 1) / (rounds * threads) + 1;
    if (shared * calls_for(samples, share) > passed) return 0;
    if (unevenness(samples, share, threads) <= most) return share;
  }
  return 0;
}
