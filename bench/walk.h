/* walk.h -- a plan's run on a machine that is not here: who takes which task and when, by times that somebody has
 * measured or made up. Plain arithmetic; simulate.c brings the times. */
#ifndef BENCH_WALK_H
#define BENCH_WALK_H
#include "base/base.h"

enum { WALK_NONE = UINT32_MAX, WALK_MOST = 16 /* numbers of threads */ };

/* A worker of the pool, kept on a core: in the tree by which orders go, and the memory that is near. */
typedef struct walk_worker {
  uint32_t below, beside; /* the first that it tells; the next that is told by the same; WALK_NONE */
  uint32_t node;
} walk_worker;

typedef struct walk_machine {
  const walk_worker *workers; /* one per core; the first leads */
  uint32_t count;
  double tell_ns;     /* from an order until it is seen, and from an end until it is seen */
  double line_ns;     /* to write one order more, and to look at one more who ends */
  double per_thread;  /* speed of each of several threads, of one alone */
  double node_per_ns; /* bytes from the memory of a node; 0: no limit is known */
  double far_per_ns;  /* bytes that another core has just written, for each who fetches them; 0: no limit is known */
  bool counted;       /* tasks have no times, but numbers of lines that they write: none finds its caches cold */
} walk_machine;

/* One call of a step's kernel. Every worker has `before` and `after`, and tasks between. */
typedef struct walk_call {
  uint32_t step;    /* into walk_plan.names */
  uint32_t workers; /* that the plan gives it */
  uint32_t rounds;  /* in which all workers meet (base/team.h): task i is worker i's part of all; 0: none */
  int64_t count;    /* of tasks */
  double *task_ns, before_ns, after_ns;
  double bytes;      /* of its operands and results */
  double far_bytes;  /* of those that other cores have than those that read or write them */
  uint16_t *writers; /* of its first result the worker of each line; NULL: not known */
  size_t lines;
} walk_call;

/* All calls of one run for a number of threads. */
typedef struct walk_run {
  uint32_t threads;
  const walk_call *calls;
  uint32_t count;
} walk_run;

typedef struct walk_plan {
  const char **names;
  uint32_t steps;
  const walk_run *runs; /* by rising numbers of threads, the first for 1; at most WALK_MOST */
  uint32_t count;
  double between_ns; /* of a run, in no step */
} walk_plan;

typedef struct walk_times {
  double ns;           /* until the leader goes on */
  double tasks_ns;     /* until the last task ends, were it not for what orders cost */
  double busy_ns;      /* of all workers, in tasks */
  int64_t least, most; /* tasks of a worker of all the machine's that are used */
} walk_times;

/* Who has been at memory last, line by line: a core that writes what is in another's caches waits for it as one that
 * reads it does. */
enum { WALK_LINE = 64, WALK_NOBODY = UINT16_MAX, WALK_SEVERAL = UINT16_MAX - 1 };
/* Of `count` lines the bytes that others have than who writes them, who has them now. `writers`: a worker for each
 * line; NULL: `workers` write them from front to back, each as many. */
double walk_write(uint16_t *holders, size_t count, uint32_t workers, const uint16_t *writers);
/* The same of reading, from front to back, or with `whole` all lines by all; what one has and another reads both have.
 */
double walk_read(uint16_t *holders, size_t count, uint32_t workers, bool whole);
/* Does each worker write some of everything? So it is where channels are dealt out, not rows. */
bool walk_is_across(const uint16_t *writers, size_t count, uint32_t workers);

/* A call on the first `threads` workers; `taken`: room for as many counts of tasks. False: out of memory. */
bool walk_call_times(const walk_machine *machine, uint32_t threads, const walk_call *call, int64_t *taken,
                     walk_times *times);
/* The time of a whole run. Below 0: out of memory. */
double walk_run_ns(const walk_machine *machine, const walk_plan *plan, const walk_run *run);
/* How evenly steps are dealt out among the most threads, and which leave cores idle. False: out of memory. */
bool walk_print_shares(const walk_machine *machine, const walk_plan *plan, base_text *text);
/* Who runs what on the most threads, how all steps scale, and which leave cores idle. False: out of memory. */
bool walk_print(const walk_machine *machine, const walk_plan *plan, base_text *text);
#endif
