/* layout.c -- which CPUs each instance has.
 *
 * The pool is the CPUs that may be used and were asked for, in the order of cores (topology.h), so that a slice of it
 * is near together. It is cut into slices, within each NUMA node if instances may not cross them. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/layout.h"

typedef struct pool {
  const sys_topology *machine;
  const launch_request *request;
  const sys_cpu **cpus;
  uint32_t count;
  uint32_t siblings, efficient, denied; /* left out: hyper-threads, efficiency cores, those outside of the affinity */
  base_arena *arena;
  launch_layout *layout;
  td_error *err;
} pool;

/* A run of the pool, cut into `slices`. */
typedef struct bucket {
  uint32_t start, end, slices;
} bucket;

td_status launch_note(base_arena *arena, launch_notes *notes, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  const char **note = base_vec_push(arena, notes);
  const char *copy = note ? base_arena_text(arena, text) : NULL;
  if (!copy) return TD_NO_RESOURCE;
  *note = copy;
  return TD_OK;
}

const char *launch_list(base_arena *arena, const sys_cpu_set *set) {
  base_text text = {.allocator = &base_libc_allocator};
  sys_set_print(set, &text);
  const char *list = text.failed ? NULL : base_arena_text(arena, text.at ? text.at : "");
  base_text_free(&text);
  return list;
}

/* ---- the pool ---- */

/* The numbers in a list, each of which `have` must hold. */
static td_status read_list(const pool *p, const char *what, const char *list, const sys_cpu_set *have,
                           sys_cpu_set *set) {
  sys_cpu_set missing = {0};
  *set = (sys_cpu_set){0};
  if (!sys_set_parse(base_str_of(list), set))
    return base_fail(p->err, TD_BAD_ARGUMENT, NULL, -1, "'%s' is no list of %s such as 0-3,8", list, what);
  for (uint32_t i = 0; i < SYS_MOST_CPUS; i++)
    if (sys_set_has(set, i) && !sys_set_has(have, i)) sys_set_add(&missing, i);
  if (sys_set_count(&missing) == 0) return TD_OK;
  return base_fail(p->err, TD_BAD_ARGUMENT, NULL, -1, "%s %s cannot be used: not there, offline or not allowed; %s can",
                   what, launch_list(p->arena, &missing), launch_list(p->arena, have));
}

/* What was asked for, of what affinity allows. */
static td_status choose(const pool *p, sys_cpu_set *wanted) {
  sys_cpu_set allowed = {0}, nodes = {0}, listed;
  for (uint32_t i = 0; i < p->machine->count; i++) {
    if (!p->machine->cpus[i].allowed) continue;
    sys_set_add(&allowed, p->machine->cpus[i].number);
    sys_set_add(&nodes, p->machine->cpus[i].node);
  }
  *wanted = allowed;
  if (p->request->cores) return read_list(p, "CPUs", p->request->cores, &allowed, wanted);
  if (!p->request->nodes) return TD_OK;
  TRY(read_list(p, "nodes", p->request->nodes, &nodes, &listed));
  *wanted = (sys_cpu_set){0};
  for (uint32_t i = 0; i < p->machine->count; i++)
    if (p->machine->cpus[i].allowed && sys_set_has(&listed, p->machine->cpus[i].node))
      sys_set_add(wanted, p->machine->cpus[i].number);
  return TD_OK;
}

static bool mixes_kinds(const sys_topology *t, const sys_cpu_set *wanted) {
  bool fast = false, slow = false;
  for (uint32_t i = 0; i < t->count; i++)
    if (sys_set_has(wanted, t->cpus[i].number)) *(t->cpus[i].efficient ? &slow : &fast) = true;
  return fast && slow;
}

/* The first CPU of each core that was asked for stands for it: hyper-threads alone are cores, too. */
static td_status fill_pool(pool *p) {
  sys_cpu_set wanted;
  uint32_t last_core = UINT32_MAX;
  TRY(choose(p, &wanted));
  const bool leave_slow = !p->request->efficient && mixes_kinds(p->machine, &wanted);
  p->cpus = base_new(p->arena, const sys_cpu *, p->machine->count);
  if (!p->cpus) return base_no_memory(p->err, "a layout");
  for (uint32_t i = 0; i < p->machine->count; i++) {
    const sys_cpu *cpu = &p->machine->cpus[i];
    p->denied += !cpu->allowed;
    if (!sys_set_has(&wanted, cpu->number)) continue;
    const bool sibling = cpu->core == last_core;
    last_core = cpu->core;
    if (leave_slow && cpu->efficient) p->efficient++;
    else if (sibling && !p->request->logical) p->siblings++;
    else p->cpus[p->count++] = cpu;
  }
  if (p->siblings)
    TRY(launch_note(p->arena, &p->layout->notes, "%u hyper-threads are left out; --use-logical-cores takes them",
                    p->siblings));
  if (p->efficient)
    TRY(launch_note(p->arena, &p->layout->notes, "%u efficiency cores' CPUs are left out; --use-e-cores takes them",
                    p->efficient));
  return TD_OK;
}

/* How many CPUs there are, and why no more: the end of each error. */
static const char *arithmetic(const pool *p) {
  base_text text = {.allocator = &base_libc_allocator};
  base_text_print(&text, "%u %s can be used", p->count, p->request->logical ? "CPUs" : "cores");
  if (p->siblings) base_text_print(&text, ", %u hyper-threads left out (--use-logical-cores)", p->siblings);
  if (p->efficient) base_text_print(&text, ", %u CPUs of efficiency cores left out (--use-e-cores)", p->efficient);
  if (p->denied) base_text_print(&text, ", %u CPUs outside of the affinity", p->denied);
  const char *copy = base_arena_text(p->arena, text.at ? text.at : "");
  base_text_free(&text);
  return copy ? copy : "";
}

/* ---- cutting ---- */

/* Whole CPUs of a quota; SYS_MOST_CPUS: there is none. */
static uint32_t quota_cpus(const pool *p) {
  const double quota = p->machine->quota_cpus;
  if (quota <= 0 || quota >= SYS_MOST_CPUS) return SYS_MOST_CPUS;
  return quota < 1 ? 1 : (uint32_t)quota;
}

/* Runs of one NUMA node, or all as one. `buckets` has room for each CPU. */
static uint32_t make_buckets(const pool *p, bucket *buckets) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < p->count; i++) {
    if (i == 0 || (p->request->bind && p->cpus[i]->node != p->cpus[i - 1]->node))
      buckets[count++] = (bucket){.start = i};
    buckets[count - 1].end = i + 1;
  }
  return count;
}

static td_status add_slice(const pool *p, uint32_t start, uint32_t end) {
  launch_layout *l = p->layout;
  launch_instance *instance = &l->instances[l->count];
  *instance = (launch_instance){.index = l->count++, .count = end - start, .threads = end - start};
  for (uint32_t i = start; i < end; i++) {
    sys_set_add(&instance->cpus, p->cpus[i]->number);
    sys_set_add(&instance->nodes, p->cpus[i]->node);
  }
  return TD_OK;
}

/* Where units begin: cores, so that none is cut, or CPUs where there are more slices than cores. */
static uint32_t find_units(const pool *p, const bucket *b, uint32_t *starts) {
  uint32_t count = 0;
  for (uint32_t i = b->start; i < b->end; i++)
    if (i == b->start || p->cpus[i]->core != p->cpus[i - 1]->core) starts[count++] = i;
  if (b->slices > count)
    for (count = 0; count < b->end - b->start; count++) starts[count] = b->start + count;
  starts[count] = b->end;
  return count;
}

/* As many slices in each bucket as its share, at least one; then less where its slices would be smallest, and last
 * none in the smallest buckets. */
static void deal_slices(bucket *buckets, uint32_t count, uint32_t slices, uint32_t total) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t size = buckets[i].end - buckets[i].start;
    buckets[i].slices = (uint32_t)((slices * size + total - 1) / total);
    sum += buckets[i].slices;
  }
  for (; sum > slices; sum--) {
    bucket *least = NULL;
    for (uint32_t i = 0; i < count; i++) {
      bucket *b = &buckets[i];
      if (b->slices <= 1) continue;
      if (!least || (b->end - b->start) / b->slices < (least->end - least->start) / least->slices) least = b;
    }
    if (!least) break;
    least->slices--;
  }
  for (; sum > slices; sum--) {
    bucket *least = NULL;
    for (uint32_t i = 0; i < count; i++)
      if (buckets[i].slices && (!least || buckets[i].end - buckets[i].start <= least->end - least->start))
        least = &buckets[i];
    least->slices = 0;
  }
}

static td_status cut_evenly(const pool *p, bucket *buckets, uint32_t count, uint32_t slices) {
  if (slices > p->count)
    return base_fail(p->err, TD_BAD_ARGUMENT, NULL, -1,
                     "%u instances need %u cores, one each; %s. Ask for fewer, or let them share with --share-cores",
                     slices, slices, arithmetic(p));
  uint32_t *starts = base_new(p->arena, uint32_t, (size_t)p->count + 1);
  if (!starts) return base_no_memory(p->err, "a layout");
  deal_slices(buckets, count, slices, p->count);
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t units = buckets[i].slices ? find_units(p, &buckets[i], starts) : 0;
    for (uint32_t k = 0, at = 0; k < buckets[i].slices; k++) {
      const uint32_t rest = p->request->cores_each == -1 ? units % buckets[i].slices : 0;
      const uint32_t size = units / buckets[i].slices + (k < rest);
      TRY(add_slice(p, starts[at], starts[at + size]));
      at += size;
    }
  }
  return TD_OK;
}

/* Which of `slices` are kept when `wanted` are: the first, or some as far from one another as can be. */
static uint32_t kept_slice(const pool *p, uint32_t k, uint32_t wanted, uint32_t slices) {
  if (p->request->close || p->request->bind) return k;
  const uint32_t step = (slices + wanted - 1) / wanted;
  return step * (wanted - 1) < slices ? k * step : (uint32_t)((uint64_t)k * slices / wanted);
}

/* With bound nodes each bucket gets slices in turn, else the first ones all they have. */
static void deal_kept(const pool *p, bucket *buckets, uint32_t count, uint32_t each, uint32_t wanted) {
  while (wanted)
    for (uint32_t i = 0; i < count && wanted; i++) {
      bucket *b = &buckets[i];
      const uint32_t room = (b->end - b->start) / each - b->slices;
      const uint32_t more = p->request->close ? (room < wanted ? room : wanted) : room > 0;
      b->slices += more;
      wanted -= more;
    }
}

static td_status cut_by_size(const pool *p, bucket *buckets, uint32_t count, uint32_t each, uint32_t wanted) {
  uint32_t slices = 0;
  for (uint32_t i = 0; i < count; i++) slices += (buckets[i].end - buckets[i].start) / each;
  const uint32_t quota = quota_cpus(p) / each;
  const char *within = p->request->bind ? " within NUMA nodes" : "";
  if (slices == 0 || wanted > slices)
    return base_fail(p->err, TD_BAD_ARGUMENT, NULL, -1, "%u x %u cores = %u, but %u instances of %u fit%s: %s",
                     wanted ? wanted : 1, each, (wanted ? wanted : 1) * each, slices, each, within, arithmetic(p));
  if (quota == 0 || (wanted > quota && !p->request->share))
    return base_fail(p->err, TD_BAD_ARGUMENT, NULL, -1, "%u x %u cores = %u, but the cgroup's quota is %g CPUs",
                     wanted ? wanted : 1, each, (wanted ? wanted : 1) * each, p->machine->quota_cpus);
  if (wanted == 0) wanted = slices < quota ? slices : quota;
  if (!p->request->bind) {
    for (uint32_t k = 0; k < wanted; k++) {
      const uint32_t at = kept_slice(p, k, wanted, slices) * each;
      TRY(add_slice(p, at, at + each));
    }
    return TD_OK;
  }
  deal_kept(p, buckets, count, each, wanted);
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; k < buckets[i].slices; k++)
      TRY(add_slice(p, buckets[i].start + k * each, buckets[i].start + (k + 1) * each));
  return TD_OK;
}

/* More instances than slices: they go round. */
static td_status share_cores(const pool *p, uint32_t wanted) {
  const uint32_t each = p->request->cores_each > 0 ? (uint32_t)p->request->cores_each : 1;
  const uint32_t slices = p->count / each;
  if (slices == 0)
    return base_fail(p->err, TD_BAD_ARGUMENT, NULL, -1, "an instance of %u cores does not fit: %s", each,
                     arithmetic(p));
  for (uint32_t k = 0; k < wanted; k++) TRY(add_slice(p, k % slices * each, (k % slices + 1) * each));
  return launch_note(p->arena, &p->layout->notes, "%u instances share %u cores: expect less of each", wanted,
                     slices * each);
}

/* ---- what a quota leaves ---- */

/* CPU time is shared evenly; CPUs stay as they are, so that the system finds an idle one. */
static td_status apply_quota(const pool *p) {
  launch_layout *l = p->layout;
  const uint32_t quota = quota_cpus(p);
  uint32_t sum = 0;
  for (uint32_t i = 0; i < l->count; i++) sum += l->instances[i].threads;
  if (sum <= quota) return TD_OK;
  uint32_t each = quota / l->count;
  if (each == 0 && !p->request->share)
    return base_fail(p->err, TD_BAD_ARGUMENT, NULL, -1,
                     "%u instances need %u CPUs, one each; the cgroup's quota is %g CPUs. Ask for fewer, or let them "
                     "share with --share-cores",
                     l->count, l->count, p->machine->quota_cpus);
  if (each == 0) each = 1;
  for (uint32_t i = 0; i < l->count; i++)
    if (l->instances[i].threads > each) l->instances[i].threads = each;
  return launch_note(p->arena, &l->notes, "the cgroup's quota of %g CPUs leaves each instance %u thread%s",
                     p->machine->quota_cpus, each, each == 1 ? "" : "s");
}

static void find_idle(const pool *p) {
  for (uint32_t i = 0; i < p->count; i++) {
    bool used = false;
    for (uint32_t k = 0; k < p->layout->count; k++)
      used |= sys_set_has(&p->layout->instances[k].cpus, p->cpus[i]->number);
    if (!used) sys_set_add(&p->layout->idle, p->cpus[i]->number);
  }
}

static td_status note_crossings(const pool *p) {
  for (uint32_t i = 0; i < p->layout->count; i++) {
    const launch_instance *in = &p->layout->instances[i];
    if (sys_set_count(&in->nodes) > 1)
      TRY(launch_note(p->arena, &p->layout->notes,
                      "instance %u crosses NUMA nodes %s; --bind-numa-node keeps it in one", in->index,
                      launch_list(p->arena, &in->nodes)));
  }
  return TD_OK;
}

/* --instance-idx: some of the layout. */
static td_status select_instances(const pool *p) {
  sys_cpu_set listed, have = {0};
  launch_layout *l = p->layout;
  uint32_t kept = 0;
  if (!p->request->index) return TD_OK;
  for (uint32_t i = 0; i < l->count; i++) sys_set_add(&have, i);
  TRY(read_list(p, "instances", p->request->index, &have, &listed));
  for (uint32_t i = 0; i < l->count; i++)
    if (sys_set_has(&listed, i)) l->instances[kept++] = l->instances[i];
  l->count = kept;
  return TD_OK;
}

td_status launch_lay_out(const sys_topology *machine, const launch_request *request, base_arena *arena,
                         launch_layout *layout, td_error *err) {
  pool p = {.machine = machine, .request = request, .arena = arena, .layout = layout, .err = err};
  *layout = (launch_layout){0};
  TRY(fill_pool(&p));
  bucket *buckets = base_new(arena, bucket, (size_t)p.count + 1);
  uint32_t most = p.count > request->instances ? p.count : request->instances, wanted = request->instances;
  layout->instances = base_new(arena, launch_instance, most);
  if (!buckets || !layout->instances) return base_no_memory(err, "a layout");
  const uint32_t count = make_buckets(&p, buckets);
  uint32_t each = request->cores_each > 0 ? (uint32_t)request->cores_each : 0;
  if (request->latency) {
    const uint32_t limit = p.count < quota_cpus(&p) ? p.count : quota_cpus(&p);
    each = limit < 4 ? limit : 4;
  }
  if (request->throughput) wanted = count;
  const uint32_t fit = each ? p.count / each : p.count;
  if (request->share && wanted > fit) TRY(share_cores(&p, wanted));
  else if (each) TRY(cut_by_size(&p, buckets, count, each, wanted));
  else TRY(cut_evenly(&p, buckets, count, wanted ? wanted : 1));
  TRY(apply_quota(&p));
  find_idle(&p);
  TRY(note_crossings(&p));
  return select_instances(&p);
}
