/* roofline.c -- measuring peaks and bandwidths.
 *
 * A team of pinned threads runs a probe in bursts of about a millisecond, all starting together. The rate of a burst is
 * the work of all over the time from the first start to the last end; the best burst counts, because a burst that was
 * interrupted says nothing of the machine. Everything is measured in rounds until the time is up, so that the bursts of
 * one figure are spread over it. */
#include "runtime/roofline.h"
#include "kernels/kernels.h"
#include "sys/sys.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
  BURSTS = 32,
  PEAK_ROUNDS = 20000,           /* of a probe's loop in a burst */
  CACHED_BURST_BYTES = 32 << 20, /* per thread, of a level that is swept again and again */
  DRAM_WINDOW_BYTES = 8 << 20,   /* per thread and burst; the next burst takes the next window */
  DRAM_LEAST_BYTES = 64 << 20,   /* per thread; caches beyond the last one that is known are smaller, we hope */
  MOST_THREADS = 1024
};

/* What a burst does. */
typedef struct probe {
  const kern_row *row;
  size_t bytes;  /* of each thread's memory; 0: arithmetic */
  size_t window; /* of them in a burst */
  uint32_t sweeps;
  bool copy; /* the first half of the window to the second */
} probe;

typedef struct team team;
typedef struct worker {
  team *team;
  uint32_t index;
  char *memory;
  size_t reserved;
  double work; /* of a burst: operations or bytes */
  uint64_t start[BURSTS], end[BURSTS];
  sys_thread thread;
} worker;

struct team {
  const probe *probe;
  uint32_t size;            /* workers that take part */
  _Atomic uint32_t arrived; /* workers at the start of a burst, counted over all bursts */
  worker *workers;
  uint32_t capacity;
};

static void run_peak(const kern_row *row, double *work) {
  /* The fixed point of x -> x / 2 + 1 / 2: no overflow, no denormals. */
  float start[16], sum;
  int64_t rounds = PEAK_ROUNDS, many = 16, one = 1;
  for (int i = 0; i < 16; i++) start[i] = i < 2 ? 0.5f : 1;
  base_value in[] = {{.kind = BASE_TENSOR, .tensor = base_tensor_of(start, TD_F32, 1, &many)},
                     {.kind = BASE_TENSOR, .tensor = base_tensor_of(&rounds, TD_I64, 1, &one)}};
  base_value out[] = {{.kind = BASE_TENSOR, .tensor = base_tensor_of(&sum, TD_F32, 1, &one)},
                      {.kind = BASE_TENSOR, .tensor = base_tensor_of(work, TD_F64, 1, &one)}};
  const base_value *ins[] = {&in[0], &in[1]};
  base_value *outs[] = {&out[0], &out[1]};
  row->run(&(base_call){.in = ins, .in_count = 2, .out = outs, .out_count = 2});
}

static void run_memory(const probe *p, char *window, double *work) {
  float sum;
  size_t bytes = p->copy ? p->window / 2 : p->window;
  int64_t count = (int64_t)(bytes / sizeof(float)), one = 1;
  base_value in = {.kind = BASE_TENSOR, .tensor = base_tensor_of(window, TD_F32, 1, &count)};
  base_value out = {
      .kind = BASE_TENSOR,
      .tensor = p->copy ? base_tensor_of(window + bytes, TD_F32, 1, &count) : base_tensor_of(&sum, TD_F32, 1, &one)};
  const base_value *ins[] = {&in};
  base_value *outs[] = {&out};
  for (uint32_t i = 0; i < p->sweeps; i++)
    p->row->run(&(base_call){.in = ins, .in_count = 1, .out = outs, .out_count = 1});
  *work = (double)p->window * p->sweeps;
}

/* Writes every page; `bytes` are whole ones. */
static void touch(char *memory, size_t bytes) {
  enum { PAGE = 4096 };
  float *values = (float *)(void *)memory;
  for (size_t i = 0; bytes > 0 && i < PAGE / sizeof *values; i++) values[i] = 1;
  for (size_t at = PAGE; at < bytes; at += PAGE) memcpy(memory + at, memory, PAGE);
}

static void run_worker(void *user) {
  worker *w = user;
  team *t = w->team;
  const probe *p = t->probe;
  sys_thread_pin(w->index);
  touch(w->memory, p->bytes);
  for (uint32_t burst = 0; burst < BURSTS; burst++) {
    atomic_fetch_add(&t->arrived, 1);
    while (atomic_load(&t->arrived) < t->size * (burst + 1)) continue;
    w->start[burst] = sys_clock_ns();
    if (p->bytes) run_memory(p, w->memory + burst % (p->bytes / p->window) * p->window, &w->work);
    else run_peak(p->row, &w->work);
    w->end[burst] = sys_clock_ns();
  }
}

/* Work per second of the best burst. */
static double best_rate(const team *t) {
  double best = 0;
  for (uint32_t burst = 0; burst < BURSTS; burst++) {
    uint64_t start = UINT64_MAX, end = 0;
    double work = 0;
    for (uint32_t i = 0; i < t->size; i++) {
      const worker *w = &t->workers[i];
      if (w->start[burst] < start) start = w->start[burst];
      if (w->end[burst] > end) end = w->end[burst];
      work += w->work;
    }
    double rate = end > start ? work / ((double)(end - start) * 1e-9) : 0;
    if (rate > best) best = rate;
  }
  return best;
}

/* Raises *rate to what `size` workers reach. */
static td_status measure(team *t, const probe *p, uint32_t size, double *rate, td_error *err) {
  td_status status = TD_OK;
  uint32_t started = 0;
  t->probe = p;
  t->size = size;
  atomic_store(&t->arrived, 0);
  while (status == TD_OK && started < size) {
    worker *w = &t->workers[started];
    status = sys_thread_start(&w->thread, run_worker, w, err);
    started += status == TD_OK;
  }
  /* Those that wait for one that did not start are let go. */
  if (status != TD_OK) atomic_store(&t->arrived, UINT32_MAX / 2);
  for (uint32_t i = 0; i < started; i++) sys_thread_join(&t->workers[i].thread);
  if (status != TD_OK) return status;
  double reached = best_rate(t);
  if (reached > *rate) *rate = reached;
  return TD_OK;
}

/* ---- what is measured ---- */

/* Bytes of each level per thread; 0: there is no such level, or it holds no more than the one before. */
static void level_bytes(const sys_machine *m, uint32_t threads, uint64_t bytes[TD_DRAM + 1]) {
  bytes[TD_L1] = m->l1d_bytes;
  bytes[TD_L2] = m->l2_bytes > 2 * m->l1d_bytes ? m->l2_bytes : 0;
  bytes[TD_L3] = m->l3_bytes / threads > 2 * m->l2_bytes ? m->l3_bytes / threads : 0;
  bytes[TD_DRAM] = m->memory_bytes / threads;
}

/* What to measure with lies in the level and not in the one before, with room for what else there is: an L3 is often
 * shared with strangers. */
static size_t buffer_bytes(td_memory_level level, const uint64_t bytes[TD_DRAM + 1]) {
  uint64_t half = bytes[level] / 2, few = 4 * bytes[TD_L2], beyond = 4 * bytes[TD_L3];
  uint64_t size = level == TD_L3 && few && few < half ? few : half;
  if (level == TD_DRAM) size = beyond > DRAM_LEAST_BYTES ? beyond : DRAM_LEAST_BYTES;
  return (size_t)(size - size % 4096);
}

static probe memory_probe(const sys_machine *m, const td_bandwidth *b, kern_family family, bool copy) {
  uint64_t levels[TD_DRAM + 1];
  level_bytes(m, b->threads, levels);
  const size_t bytes = buffer_bytes(b->level, levels);
  probe p = {.row = kern_select(family, TD_F32, m->isa | BASE_ISA_VECTOR),
             .bytes = bytes,
             .window = bytes,
             .sweeps = 1,
             .copy = copy};
  if (b->level == TD_DRAM) p.window = DRAM_WINDOW_BYTES;
  else p.sweeps = (uint32_t)(CACHED_BURST_BYTES / bytes) + 1;
  return p;
}

/* 1, 2, 4, ... and `most`; after `most` comes a larger number. */
static uint32_t next_count(uint32_t count, uint32_t most) {
  return count < most && count * 2 > most ? most : count * 2;
}

enum { TYPES = 3 };
static const td_dtype types[TYPES] = {TD_F32, TD_BF16, TD_I8};

static void list_rows(const sys_machine *m, uint32_t threads, td_roofline *r) {
  uint32_t level_count;
  const kern_level *levels = kern_levels(&level_count);
  for (uint32_t i = 0; i < level_count * TYPES; i++) {
    const kern_level *level = &levels[i / TYPES];
    const td_dtype dtype = types[i % TYPES];
    const kern_row *row = kern_select(KERN_PROBE_PEAK, dtype, level->isa);
    const bool emulated = row && dtype != TD_F32 && !base_isa_lacks(0, row->isa); /* says nothing of the CPU */
    if (!row || emulated || level->isa & BASE_ISA_EMULATED || base_isa_lacks(m->isa, level->isa)) continue;
    for (uint32_t n = 1; n <= threads && r->peak_count < TD_ROOFLINE_ROWS; n = next_count(n, threads)) {
      td_peak *peak = &r->peaks[r->peak_count++];
      *peak = (td_peak){.dtype = dtype, .threads = n};
      snprintf(peak->isa, sizeof peak->isa, "%s", level->name);
    }
  }
  for (int level = TD_L1; level <= TD_DRAM; level++)
    for (uint32_t n = 1; n <= threads && r->bandwidth_count < TD_ROOFLINE_ROWS; n = next_count(n, threads)) {
      uint64_t bytes[TD_DRAM + 1];
      level_bytes(m, n, bytes);
      if (bytes[level] == 0) continue;
      r->bandwidths[r->bandwidth_count++] =
          (td_bandwidth){.level = (td_memory_level)level, .threads = n, .bytes = bytes[level]};
    }
}

/* One round: every figure once. */
static td_status measure_all(team *t, const sys_machine *m, td_roofline *r, td_error *err) {
  bool known;
  for (uint32_t i = 0; i < r->peak_count; i++) {
    td_peak *peak = &r->peaks[i];
    const probe p = {.row = kern_select(KERN_PROBE_PEAK, peak->dtype, kern_level_mask(peak->isa, m->isa, &known))};
    TRY(measure(t, &p, peak->threads, &peak->per_second, err));
  }
  for (uint32_t i = 0; i < r->bandwidth_count; i++) {
    td_bandwidth *b = &r->bandwidths[i];
    const probe read = memory_probe(m, b, KERN_PROBE_READ, false), copy = memory_probe(m, b, KERN_PROBE_COPY, true);
    TRY(measure(t, &read, b->threads, &b->read, err));
    TRY(measure(t, &copy, b->threads, &b->copy, err));
  }
  return TD_OK;
}

static size_t most_bytes(const sys_machine *m, const td_roofline *r) {
  size_t most = 0;
  for (uint32_t i = 0; i < r->bandwidth_count; i++) {
    const probe p = memory_probe(m, &r->bandwidths[i], KERN_PROBE_READ, false);
    if (p.bytes > most) most = p.bytes;
  }
  return most;
}

static td_status gather(team *t, size_t bytes, td_error *err) {
  t->workers = base_alloc(&base_libc_allocator, t->capacity * sizeof *t->workers);
  if (!t->workers) return base_no_memory(err, "the roofline");
  memset(t->workers, 0, t->capacity * sizeof *t->workers);
  for (uint32_t i = 0; i < t->capacity; i++) {
    worker *w = &t->workers[i];
    w->team = t;
    w->index = i;
    w->reserved = bytes;
    w->memory = sys_reserve(&w->reserved);
    if (!w->memory || w->reserved < bytes) return base_no_memory(err, "the roofline");
    sys_want_huge_pages(w->memory, w->reserved);
  }
  return TD_OK;
}

static void dismiss(team *t) {
  for (uint32_t i = 0; t->workers && i < t->capacity; i++) sys_release(t->workers[i].memory, t->workers[i].reserved);
  base_free(&base_libc_allocator, t->workers, t->capacity * sizeof *t->workers);
}

td_status run_roofline(uint32_t threads, double seconds, td_roofline *roofline, td_error *err) {
  sys_machine machine;
  sys_machine_read(&machine);
  if (threads > machine.allowed_cpus) threads = machine.allowed_cpus;
  if (threads > MOST_THREADS) threads = MOST_THREADS;
  *roofline = (td_roofline){0};
  memcpy(roofline->cpu, machine.cpu_name, sizeof roofline->cpu);
  list_rows(&machine, threads, roofline);
  team t = {.capacity = threads};
  uint64_t end = sys_clock_ns() + (uint64_t)(seconds * 1e9);
  td_status status = gather(&t, most_bytes(&machine, roofline), err);
  do
    if (status == TD_OK) status = measure_all(&t, &machine, roofline, err);
  while (status == TD_OK && sys_clock_ns() < end);
  dismiss(&t);
  return status;
}
