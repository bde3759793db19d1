/* run_kernel.h -- calls kernels as the executor does: on one or several threads that share out the tasks. */
#ifndef TESTS_RUN_KERNEL_H
#define TESTS_RUN_KERNEL_H
#include "test.h"

#include <sys/mman.h>
#include <unistd.h>

#include "kernels/kernels.h"
#include "sys/sys.h"

enum { RUN_OPERANDS = 8, RUN_OUTPUTS = 4, RUN_WORKERS = 4, RUN_SCRATCH = 1 << 24 };

/* A kernel and its operands; in[i].data NULL: absent. */
typedef struct run_kernel {
  const kern_row *row;
  const base_attrs *attrs;
  base_tensor in[RUN_OPERANDS], out;
  base_tensor more[RUN_OUTPUTS - 1]; /* outputs behind it; data NULL: absent */
  uint32_t in_count;                 /* 0: RUN_OPERANDS */
  uint32_t cut_for;                  /* workers that one thread cuts its tasks for; 0: those that run it */
  const struct kern_tuning *tuning;  /* NULL: the defaults */
} run_kernel;

typedef struct run_worker {
  base_call call;
  td_error err;
  sys_thread thread;
  td_status status;
  char *scratch;
  size_t used;
} run_worker;

/* Of each worker; not allocated anew for every call, which sanitizers take long over. */
static inline char *run_memory(uint32_t worker) {
  static _Alignas(64) char memory[RUN_WORKERS][RUN_SCRATCH];
  return memory[worker];
}

static void *run_scratch(void *memory, size_t bytes) {
  run_worker *w = memory;
  if (bytes > RUN_SCRATCH - w->used) return NULL;
  void *at = w->scratch + w->used;
  w->used += (bytes + 63) / 64 * 64;
  return at;
}

static void run_on_worker(void *user) {
  run_worker *w = user;
  const kern_row *row = w->call.op;
  w->status = row->run(&w->call);
}

/* Runs the kernel on `workers` threads at once; 1: on this one, without lanes. */
static inline void run_kernel_on(const run_kernel *k, uint32_t workers) {
  base_value in[RUN_OPERANDS], out[RUN_OUTPUTS];
  const base_value *ins[RUN_OPERANDS];
  base_value *outs[RUN_OUTPUTS];
  for (int i = 0; i < RUN_OUTPUTS; i++) {
    out[i] = (base_value){.kind = BASE_TENSOR, .tensor = i ? k->more[i - 1] : k->out};
    outs[i] = out[i].tensor.data ? &out[i] : NULL;
  }
  for (int i = 0; i < RUN_OPERANDS; i++) {
    in[i] = (base_value){.kind = BASE_TENSOR, .tensor = k->in[i]};
    ins[i] = k->in[i].data ? &in[i] : NULL;
  }
  base_lane lanes[RUN_WORKERS] = {0};
  run_worker worker[RUN_WORKERS];
  for (uint32_t i = 0; i < workers; i++) {
    run_worker *w = &worker[i];
    *w = (run_worker){.scratch = run_memory(i)};
    w->call = (base_call){.attrs = k->attrs,
                          .op = k->row,
                          .tuning = k->tuning,
                          .in = ins,
                          .out = outs,
                          .in_count = k->in_count ? k->in_count : RUN_OPERANDS,
                          .out_count = RUN_OUTPUTS,
                          .err = &w->err,
                          .memory = w,
                          .scratch = run_scratch,
                          .worker = i,
                          .workers = k->cut_for ? k->cut_for : workers,
                          .job = 1,
                          .lanes = workers > 1 ? lanes : NULL};
    if (i) assert_int_equal(sys_thread_start(&w->thread, run_on_worker, w, &w->err), TD_OK);
  }
  run_on_worker(&worker[0]);
  for (uint32_t i = 0; i < workers; i++) {
    if (i) sys_thread_join(&worker[i].thread);
    if (worker[i].status != TD_OK) fail_msg("%s: %s", k->row->name, worker[i].err.text);
  }
}

/* The kernel of a family at level `i` of kern_levels; NULL: this machine cannot run it. */
static inline const kern_row *run_row(kern_family family, uint32_t i) {
  sys_machine machine;
  uint32_t count;
  sys_machine_read(&machine);
  const kern_level *levels = kern_levels(&count);
  if (base_isa_lacks(machine.isa, levels[i].isa)) return NULL;
  return kern_select(family, TD_F32, levels[i].isa);
}

/* `count` floats in [-1, 1). */
static inline float *run_floats(int64_t count, uint32_t seed) {
  float *x = malloc((size_t)count * sizeof *x + 1);
  assert_non_null(x);
  for (int64_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) * 0x1p-23f - 1;
  }
  return x;
}

/* `bytes` that end where memory ends: what is read or written behind them is a fault. Never freed. */
static inline void *run_at_the_end(size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
  char *memory = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  assert_int_equal(mprotect(memory + whole, page, PROT_NONE), 0);
  return memory + whole - bytes;
}

/* Two and three workers give the bits that the dense output has by now. */
static inline void run_expect_any_workers(const run_kernel *k) {
  const int64_t count = base_tensor_numel(&k->out);
  for (uint32_t workers = 2; workers <= 3; workers++) {
    float *shared = run_floats(count, 8);
    run_kernel several = *k;
    several.out.data = shared;
    run_kernel_on(&several, workers);
    assert_memory_equal(shared, k->out.data, (size_t)count * sizeof *shared);
    free(shared);
  }
}

/* Under the thread sanitizer: of this program's tests those alone that have workers. The others run on one thread,
 * where it can find nothing. */
static inline void run_only_workers_under_tsan(void) {
#ifdef __SANITIZE_THREAD__
  cmocka_set_test_filter("*workers*");
#endif
}

#endif
