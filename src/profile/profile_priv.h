/* profile_priv.h -- what was recorded, and the rows and writers that forms are made with. */
#ifndef PROFILE_PROFILE_PRIV_H
#define PROFILE_PROFILE_PRIV_H
#include "base/map.h"
#include "profile/profile.h"

/* ---- what was recorded (record.c) ---- */

/* One thread's part of a step. */
typedef struct prof_record {
  uint64_t begin_ns, end_ns;
  uint32_t step;
  uint32_t run; /* number of the recorded run, from 0 */
  uint32_t cpu; /* that the thread was on when the part ended */
} prof_record;

/* Written by one thread while a run lasts, read by the session's caller between runs; the pool's hand-over orders the
 * two. On cache lines of its own. */
typedef struct prof_thread {
  prof_record *records; /* a ring of prof_options.records; record n is at n modulo its size */
  uint64_t written;     /* ever; the newest that fit are there */
  uint64_t *busy_ns;    /* by step */
  /* By step, in the run that lasts, of a thread that runs tasks; NULL: another. */
  uint64_t *task_ns, *task_calls;
  uint64_t padding[3];
} prof_thread;

/* All executions of one step: on the caller's clock, and those in tasks on their threads' own. */
typedef struct prof_total {
  uint64_t ns, calls;
  uint64_t caller_ns; /* of ns, what passed on the caller's thread */
  uint64_t run_ns;    /* of the run that lasts */
  uint64_t least_ns;  /* of one run; 0: none yet */
  double squares;     /* sum over runs of run_ns squared */
} prof_total;

typedef struct prof_run {
  uint64_t begin_ns, end_ns;
} prof_run;

struct prof_recorder {
  td_allocator allocator;
  size_t bytes; /* of this block, which holds everything */
  prof_options options;
  uint64_t started; /* runs since the schedule began */
  bool keep;        /* the run that lasts (or comes next) is recorded; changes between runs alone */
  uint64_t runs, run_ns;
  prof_run *last; /* the newest runs, a ring of PROF_RUNS */
  prof_total *totals;
  prof_thread *threads;
};
enum { PROF_RUNS = 4096 };

/* Records of a thread that are still there: number `first` to `written`, exclusive. */
uint64_t prof_first_record(const prof_recorder *r, const prof_thread *t);
const prof_record *prof_record_at(const prof_recorder *r, const prof_thread *t, uint64_t number);

/* Whose record `i` is: workers run tasks, too, under numbers behind those of all workers. */
static inline uint32_t prof_thread_of(const prof_recorder *r, uint32_t i) {
  const uint32_t sharing = r->options.threads - r->options.crew;
  return i < sharing ? i : i - sharing + 1;
}

/* Was a part of it recorded, on any thread? */
bool prof_step_ran(const prof_recorder *r, uint32_t step);
/* Where the time of threads went that computed nothing (rest.c); the fields of steps, runs and threads are there. */
void prof_add_rest(const prof_recorder *r, td_profile_totals *totals);

/* ---- text that goes out in pieces (write.c) ---- */

typedef struct prof_out {
  td_write_fn write;
  void *user;
  base_text text;   /* what was printed and not written yet */
  td_status status; /* sticky */
} prof_out;
void prof_print(prof_out *out, const char *format, ...) BASE_PRINTF(2, 3);
void prof_put(prof_out *out, const char *text);
void prof_quote(prof_out *out, const char *text); /* as a JSON string; NULL as "" */
td_status prof_finish(prof_out *out);             /* hands over the rest */

/* ---- rows (rows.c) ---- */

/* Steps with one name in common, all their executions together. */
typedef struct prof_row {
  const char *name;
  size_t name_length;
  const td_step *first; /* one of its steps */
  uint32_t step, last;  /* numbers of the first and the last of them */
  uint32_t steps;
  uint64_t calls, ns, self_ns, busy_ns; /* see td_profile_step */
  double flops, bytes;                  /* of all executions */
  double limit_ms;                      /* the same; 0: unknown */
  double variance_ns2;                  /* of its time in a run */
  uint64_t least_ns;                    /* of a run, in the run where that was shortest for each of its steps */
  uint64_t memory;                      /* most bytes of the arena in use at one of its steps */
} prof_row;

typedef struct prof_rows {
  base_arena *arena; /* everything below lives here */
  prof_row *at;      /* sorted */
  uint32_t count;
  base_map by_name;
} prof_rows;
td_status prof_rows_make(const prof_source *source, const td_profile_view *view, const td_allocator *allocator,
                         prof_rows *rows, td_error *err);
void prof_rows_free(prof_rows *rows);
/* The name of a step's node as the user wrote it: without "node " in front and " (Operator)" behind; "(plan)" of steps
 * that are no node's, as copies to outputs. */
base_str prof_node_name(const td_step *step);
/* The user's nodes that a step stands for; 0: only its own name is known. */
size_t prof_origin_count(const prof_source *source, uint32_t step);
base_str prof_origin(const prof_source *source, uint32_t step, size_t origin);
double prof_step_limit_ms(const prof_source *source, uint32_t step);
double prof_step_bytes(const td_step *step);

/* ---- columns (columns.c) ---- */

typedef enum prof_column_id {
  PROF_COLUMN_SELF,
  PROF_COLUMN_TOTAL,
  PROF_COLUMN_SHARE,
  PROF_COLUMN_CALLS,
  PROF_COLUMN_MEAN,
  PROF_COLUMN_FLOP,
  PROF_COLUMN_BYTES,
  PROF_COLUMN_GFLOPS,
  PROF_COLUMN_GBS,
  PROF_COLUMN_LIMIT,
  PROF_COLUMN_REACH,
  PROF_COLUMN_BUSY,
  PROF_COLUMN_MEMORY,
  PROF_COLUMN_STEPS,
  PROF_COLUMN_OP,
  PROF_COLUMN_KERNEL,
  PROF_COLUMNS
} prof_column_id;

enum { PROF_SCALED = -1 /* 1.23M */, PROF_PERCENT = -2 };
typedef struct prof_column {
  const char *name, *head; /* as one asks for it; above it in a table */
  const char *key;         /* in CSV and JSON; NULL: they have the sum that it is made of */
  int width, decimals;
  double (*value)(const prof_row *row, const td_profile_totals *totals);
  const char *(*text)(const prof_row *row); /* instead of a value; `width` is the most */
} prof_column;
extern const prof_column prof_columns[PROF_COLUMNS];

/* A bit per column of the names in `list`, which commas separate; NULL: the usual ones. */
td_status prof_choose_columns(const char *list, uint32_t *chosen, td_error *err);

/* Bytes of the arena in use at each step (memory.c); NULL: out of memory. */
uint64_t *prof_live_bytes(const prof_source *source, base_arena *arena);

/* ---- forms ---- */

typedef td_status (*prof_form_fn)(const prof_source *source, const td_profile_view *view, const td_allocator *allocator,
                                  prof_out *out, td_error *err);
#define FORM(name, function, summary) \
  td_status function(const prof_source *, const td_profile_view *, const td_allocator *, prof_out *, td_error *);
#include "profile/forms.def"
#undef FORM
#endif
