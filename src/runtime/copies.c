/* copies.c -- weights in the memory of each node: a thread reads those that are near the CPU it runs on.
 *
 * Constants are copied, once for each memory node but the one whose CPU has made the copies: its threads read the
 * plan's own. Each copy is made by a thread on a CPU of its node, whose first touch places the pages there. A step's
 * operands that point into the plan's constants are pointed into the copy when a thread calls its function, which costs
 * a search per operand; all else of the session is as without copies, and so are results. */
#include "plan/file.h"
#include "runtime/copies_priv.h"
#include "sys/sys.h"
#include "sys/topology.h"

#include <stdlib.h>
#include <string.h>

enum { LINE = 64 }; /* bytes of a cache line */

/* ---- what is copied ---- */

static int by_address(const void *a, const void *b) {
  const run_stretch *x = a, *y = b;
  return (x->at > y->at) - (x->at < y->at);
}

static uint32_t count_constants(const plan_exe *plan) {
  uint32_t count = 0;
  for (uint32_t k = 0; k < plan_count(plan); k++) count += plan_at(plan, k)->slots.count;
  return count;
}

/* From its first element to its last. */
static size_t bytes_of(const plan_slot *s) {
  int64_t extent = 1;
  size_t bytes = 0;
  for (int32_t d = 0; d < s->rank; d++) {
    if (s->dims[d] == 0) return 0;
    extent += (s->dims[d] - 1) * s->strides[d]; /* verified: it lies in its segment */
  }
  return base_dtype_bytes(s->dtype, extent, &bytes) ? bytes : 0;
}

/* Constants of all variants, those that overlap or touch as one. */
static void find_stretches(const plan_exe *plan, run_copies *c) {
  for (uint32_t k = 0; k < plan_count(plan); k++) {
    const plan_exe *variant = plan_at(plan, k);
    for (uint32_t i = 0; i < variant->slots.count; i++) {
      const plan_slot *s = &variant->slots.at[i];
      if (s->place != PLAN_CONST || s->dtype == TD_INVALID || s->dtype == TD_STRING) continue;
      const size_t bytes = bytes_of(s);
      if (bytes) c->stretches[c->count++] = (run_stretch){.at = plan_constant(variant, s), .bytes = bytes};
    }
  }
  qsort(c->stretches, c->count, sizeof *c->stretches, by_address);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < c->count; i++) {
    const run_stretch *s = &c->stretches[i];
    run_stretch *last = kept ? &c->stretches[kept - 1] : NULL;
    if (!last || s->at > last->at + last->bytes) c->stretches[kept++] = *s;
    else if (s->at + s->bytes > last->at + last->bytes) last->bytes = (size_t)(s->at + s->bytes - last->at);
  }
  c->count = kept;
}

/* A copy lies in its line as the original does. */
static bool place(run_copies *c) {
  for (uint32_t i = 0; i < c->count; i++) {
    const size_t skew = (uintptr_t)c->stretches[i].at % LINE;
    size_t start;
    if (!base_add(c->bytes, LINE - 1, &start)) return false;
    c->stretches[i].offset = start - start % LINE + skew;
    if (!base_add(c->stretches[i].offset, c->stretches[i].bytes, &c->bytes)) return false;
  }
  return base_add(c->bytes, LINE, &c->bytes); /* kernels may read whole vectors */
}

/* ---- which nodes there are ---- */

static td_status find_nodes(run_copies *c, const sys_topology *machine, td_error *err) {
  const uint32_t here = sys_cpu_now();
  for (uint32_t i = 0; i < machine->count; i++)
    if (machine->cpus[i].number >= c->cpu_count) c->cpu_count = machine->cpus[i].number + 1;
  c->node_of = base_new(c->arena, uint32_t, c->cpu_count);
  c->nodes = base_new(c->arena, run_node, machine->count + (size_t)1);
  if (!c->node_of || !c->nodes) return base_no_memory(err, "copies of weights");
  for (uint32_t i = 0; i < machine->count; i++) {
    const sys_cpu *cpu = &machine->cpus[i];
    if (!cpu->allowed) continue;
    uint32_t node = 0;
    while (node < c->node_count && c->nodes[node].number != cpu->node) node++;
    if (node == c->node_count) c->nodes[c->node_count++] = (run_node){.number = cpu->node, .cpu = cpu->number};
    c->node_of[cpu->number] = node;
  }
  c->own = here < c->cpu_count ? c->node_of[here] : 0;
  return TD_OK;
}

/* ---- the copies ---- */

typedef struct copying {
  const run_copies *copies;
  const run_node *node;
  sys_thread thread;
} copying;

/* Where the CPU cannot be had (it is not this machine's) the pages are placed anywhere. */
static void copy(void *user) {
  const copying *job = user;
  const sys_thread self = {.handle = pthread_self()};
  sys_thread_move(&self, job->node->cpu);
  for (uint32_t i = 0; i < job->copies->count; i++) {
    const run_stretch *s = &job->copies->stretches[i];
    memcpy(job->node->memory + s->offset, s->at, s->bytes);
  }
}

static td_status copy_to(const run_copies *c, run_node *node, td_error *err) {
  size_t bytes = c->bytes;
  copying job = {.copies = c, .node = node};
  node->memory = sys_reserve(&bytes);
  node->bytes = bytes;
  if (!node->memory || bytes < c->bytes) return base_no_memory(err, "a copy of the weights for a memory node");
  sys_want_huge_pages(node->memory, node->bytes);
  TRY(sys_thread_start(&job.thread, copy, &job, err));
  sys_thread_join(&job.thread);
  return TD_OK;
}

static td_status fill(run_copies *c, const plan_exe *plan, const char *machine, td_error *err) {
  sys_topology topology;
  const bool here = strcmp(machine, "here") == 0;
  TRY(here ? sys_topology_read("", c->arena, &topology, err) : sys_topology_load(machine, c->arena, &topology, err));
  TRY(find_nodes(c, &topology, err));
  c->stretches = base_new(c->arena, run_stretch, count_constants(plan) + (size_t)1);
  if (!c->stretches) return base_no_memory(err, "copies of weights");
  find_stretches(plan, c);
  if (!place(c)) return base_no_memory(err, "copies of weights");
  for (uint32_t i = 0; i < c->node_count && c->count; i++)
    if (i != c->own) TRY(copy_to(c, &c->nodes[i], err));
  return TD_OK;
}

td_status run_copies_new(const plan_exe *plan, const char *machine, const td_allocator *allocator, run_copies **copies,
                         td_error *err) {
  TRY(plan_check_constants(plan, err));
  base_arena *arena = base_arena_new(allocator);
  run_copies *c = arena ? base_new(arena, run_copies, 1) : NULL;
  if (!c) {
    base_arena_free(arena);
    return base_no_memory(err, "copies of weights");
  }
  c->arena = arena;
  const td_status status = fill(c, plan, machine, err);
  if (status == TD_OK) *copies = c;
  else run_copies_free(c);
  return status;
}

void run_copies_free(run_copies *c) {
  if (!c) return;
  for (uint32_t i = 0; i < c->node_count; i++) sys_release(c->nodes[i].memory, c->nodes[i].bytes);
  base_arena_free(c->arena);
}

uint32_t run_copies_nodes(const run_copies *c) { return c ? c->node_count : 0; }

uint64_t run_copies_bytes(const run_copies *c) {
  return c && c->node_count ? (c->node_count - 1) * (uint64_t)c->bytes : 0;
}

/* ---- a call ---- */

static const run_stretch *find(const run_copies *c, const char *at) {
  uint32_t first = 0, end = c->count;
  while (first < end) {
    const uint32_t middle = first + (end - first) / 2;
    const run_stretch *s = &c->stretches[middle];
    if (at < s->at) end = middle;
    else if (at >= s->at + s->bytes) first = middle + 1;
    else return s;
  }
  return NULL;
}

const base_call *run_near_call(const run_copies *c, const base_call *call, run_near *near) {
  const uint32_t cpu = sys_cpu_now();
  char *memory = cpu < c->cpu_count ? c->nodes[c->node_of[cpu]].memory : NULL;
  uint32_t moved = 0;
  if (!memory || call->in_count > RUN_NEAR) return call;
  for (uint32_t i = 0; i < call->in_count; i++) {
    const base_value *value = near->in[i] = call->in[i];
    const run_stretch *s = value && value->kind == BASE_TENSOR ? find(c, value->tensor.data) : NULL;
    if (!s) continue;
    near->values[moved] = *value;
    near->values[moved].tensor.data = memory + s->offset + ((const char *)value->tensor.data - s->at);
    near->in[i] = &near->values[moved++];
  }
  if (!moved) return call;
  near->call = *call;
  near->call.in = near->in;
  return &near->call;
}
