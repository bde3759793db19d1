/* counters.c -- the ladder of counters. Groups are counted one after the other, each over runs of its own: nothing is
 * multiplexed, and a count that had to share its counter with somebody is refused. */
#include "profile/counters_priv.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* ---- why not ---- */

/* A sentence for each way in which the system says no. */
static const struct {
  int error;
  const char *why;
} reasons[] = {
    {EPERM,
     "the system call is forbidden, as containers do by default; add the capability PERFMON (docker run --cap-add "
     "PERFMON) or a seccomp profile that allows perf_event_open"},
    {EINVAL, "the kernel takes no such event or group; one that is newer than the CPU would"},
    {ENXIO,
     "the hypervisor hides a register of the counters; a machine of one's own, or another instance type, has it"},
    {EOPNOTSUPP, "the kernel does not support such events on this CPU; a newer one may"},
    {ENODEV, "the CPU has no such counters"},
    {ENOSYS, "the kernel was built without perf events"},
    {EMFILE, "too many files are open; raise `ulimit -n`"},
    {ENFILE, "too many files are open in the system; raise fs.file-max"},
    {EBUSY, "somebody else has the counters; end other profilers"},
};

/* What the sentence for it is; NULL: none of its own. */
static const char *reason_of(const sys_counters *c, int error) {
  if (error == ENOENT && !c->has_pmu)
    return "the kernel knows no counters of this CPU, as in a virtual machine without a virtual PMU; one that has it, "
           "or a "
           "machine of one's own, counts";
  for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
    if (reasons[i].error == error) return reasons[i].why;
  return NULL;
}

static void say_why(prof_out *out, const sys_counters *c, const char *event, int error) {
  const char *why = reason_of(c, error);
  prof_print(out, "%s cannot be counted: ", event);
  if (error == EACCES)
    prof_print(out,
               "kernel.perf_event_paranoid is %d; `sysctl kernel.perf_event_paranoid=2` or the capability "
               "CAP_PERFMON lifts it ",
               c->paranoid);
  else if (why) prof_print(out, "%s ", why);
  prof_print(out, "(perf_event_open: %s)\n", strerror(error));
}

/* ---- counting a group ---- */

void prof_counters_close(const sys_counters *c, counter_group *g) {
  while (g->open) c->close(c->user, g->handles[--g->open]);
}

int prof_counters_open(const sys_counters *c, counter_group *g) {
  for (g->open = 0; g->open < g->count; g->open++) {
    const int handle = c->open(c->user, g->events[g->open], g->open ? g->handles[0] : -1);
    if (handle < 0) {
      const uint32_t failed = g->open;
      prof_counters_close(c, g);
      g->events[0] = g->events[failed];
      return -handle;
    }
    g->handles[g->open] = handle;
  }
  return 0;
}

/* False: says why. */
static bool open_group(const sys_counters *c, counter_group *g, prof_out *out) {
  const int error = prof_counters_open(c, g);
  if (error) say_why(out, c, g->events[0]->name, error);
  return error == 0;
}

static td_status run_group(const prof_counting *p, const counter_group *g, uint64_t *counts, double *share,
                           td_error *err) {
  const sys_counters *c = p->counters;
  bool fine = c->set(c->user, g->handles[0], true);
  for (uint32_t i = 0; i < p->runs; i++) TRY(p->run(p->user, err));
  fine &= c->set(c->user, g->handles[0], false) && c->read(c->user, g->handles[0], counts, g->count, share);
  if (!fine) *share = 0;
  return TD_OK;
}

/* Counts per run. *done false: it says why. */
static td_status count_group(const prof_counting *p, counter_group *g, double *counts, bool *done, prof_out *out,
                             td_error *err) {
  uint64_t raw[PROF_GROUP_EVENTS];
  double share = 0;
  *done = open_group(p->counters, g, out);
  if (!*done) return TD_OK;
  const td_status status = run_group(p, g, raw, &share, err);
  prof_counters_close(p->counters, g);
  TRY(status);
  *done = share >= COUNTERS_LEAST_SHARE;
  if (!*done)
    prof_print(out,
               "%s was counted in %.0f %% of the time alone: somebody shares the counters; end other profilers, and "
               "`sysctl kernel.nmi_watchdog=0`\n",
               g->events[0]->name, 100 * share);
  for (uint32_t i = 0; *done && i < g->count; i++) counts[i] = (double)raw[i] / share / p->runs;
  return TD_OK;
}

/* ---- top-down ---- */

/* How many levels are asked for; 0: no top-down analysis. */
static int levels_of(const prof_counting *p) {
  static const char *const names[] = {"tma1", "tma2", "tma3", "tma"};
  for (int i = 0; i < 4; i++)
    if (strcmp(p->level, names[i]) == 0) return i + 1;
  return 0;
}

static void print_nodes(const prof_counting *p, const double *nodes, prof_out *out) {
  const prof_node_id worst = prof_worst_node(nodes);
  prof_print(out, "# top-down analysis on %s [%s], caller's thread, %u runs for each group; < is below its threshold\n",
             p->cpu, p->family->name, p->runs);
  for (int i = 0; i < PROF_NODES; i++) {
    const prof_node *n = &prof_nodes[i];
    if (isnan(nodes[i])) continue;
    prof_print(out, "%-8s %*s%-*s %-8s %6.1f %%%s%s\n", n->area, 2 * (n->level - 1), "", 26 - 2 * (n->level - 1),
               n->name, n->level < 3 ? "slots" : "cycles", 100 * nodes[i],
               prof_node_counts(nodes, (prof_node_id)i) ? "" : " <", (prof_node_id)i == worst ? " <==" : "");
  }
  if (worst < PROF_NODES) prof_print(out, "%s: %s\n", prof_nodes[worst].name, prof_nodes[worst].advice);
  else prof_put(out, "no node is over its threshold\n");
}

/* The parts of a thread or class at level 1, and what becomes of the back end. */
static void put_topdown_row(const prof_counting *p, const char *name, const counter_sums *sums, prof_out *out) {
  static const prof_node_id shown[] = {PROF_FRONTEND, PROF_BAD_SPECULATION, PROF_BACKEND,
                                       PROF_RETIRING, PROF_MEMORY,          PROF_CORE};
  double nodes[PROF_NODES];
  p->family->solve(sums->at, p->counters->smt, nodes);
  prof_keep_levels(nodes, levels_of(p));
  prof_print(out, "%-20s", name);
  for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
    if (prof_nodes[shown[i]].level <= levels_of(p)) prof_print(out, " %8.1f%%", 100 * nodes[shown[i]]);
  const prof_node_id worst = prof_worst_node(nodes);
  prof_print(out, "  %s\n", worst < PROF_NODES ? prof_nodes[worst].name : "");
}

static td_status count_topdown(const prof_counting *p, const td_allocator *allocator, bool *done, prof_out *out,
                               td_error *err) {
  double counts[PROF_MOST_EVENTS] = {0}, nodes[PROF_NODES];
  prof_group groups[PROF_MOST_GROUPS];
  uint32_t group_count = 0;
  const int levels = levels_of(p);
  *done = p->family != NULL;
  if (!p->family) prof_print(out, "top-down analysis knows no events of this CPU (%s)\n", p->cpu);
  for (uint32_t k = 0; p->family && k < p->family->group_count; k++)
    if (p->family->groups[k].level <= levels) groups[group_count++] = p->family->groups[k];
  for (uint32_t k = 0; *done && k < group_count; k++) {
    const prof_group *from = &groups[k];
    counter_group g = {.count = from->count};
    double some[PROF_GROUP_EVENTS] = {0};
    for (uint32_t i = 0; i < g.count; i++) g.events[i] = &p->family->events[from->events[i]];
    TRY(count_group(p, &g, some, done, out, err));
    for (uint32_t i = 0; i < g.count; i++) counts[from->events[i]] = some[i];
  }
  if (!*done) return TD_OK;
  p->family->solve(counts, p->counters->smt, nodes);
  prof_keep_levels(nodes, levels);
  print_nodes(p, nodes, out);
  const char *head = levels > 1 ? " frontend   bad spec   backend  retiring    memory      core"
                                : " frontend   bad spec   backend  retiring";
  const counter_table table = {p->family->events, groups, group_count, head, put_topdown_row};
  return prof_counters_by_part(p, &table, allocator, out, err);
}

/* ---- instructions per cycle, caches ---- */

static void put_ipc_row(const prof_counting *p, const char *name, const counter_sums *sums, prof_out *out) {
  const double *n = sums->at;
  prof_print(out, "%-20s %12.4g %12.4g %12.2f", name, n[0] / p->runs, n[1] / p->runs, n[0] > 0 ? n[1] / n[0] : 0);
  if (n[2] > 0) prof_print(out, " %13.1f %%", 100 * n[3] / n[2]);
  prof_put(out, "\n");
}

static td_status count_ipc(const prof_counting *p, const td_allocator *allocator, bool *done, prof_out *out,
                           td_error *err) {
  static const sys_event events[PROF_MOST_EVENTS] = {{"cycles", SYS_HARDWARE, 0},
                                                     {"instructions", SYS_HARDWARE, 1},
                                                     {"cache references", SYS_HARDWARE, 2},
                                                     {"cache misses", SYS_HARDWARE, 3}};
  double n[4] = {0};
  counter_group core = {.events = {&events[0], &events[1]}, .count = 2};
  counter_group caches = {.events = {&events[2], &events[3]}, .count = 2};
  TRY(count_group(p, &core, n, done, out, err));
  if (!*done) return TD_OK;
  prof_print(out, "# on %s, caller's thread, a run, mean of %u\n", p->cpu, p->runs);
  prof_print(out, "%.4g cycles, %.4g instructions: %.2f in a cycle\n", n[0], n[1], n[0] > 0 ? n[1] / n[0] : 0);
  bool cached;
  TRY(count_group(p, &caches, n + 2, &cached, out, err));
  if (cached)
    prof_print(out, "%.4g cache references, %.4g misses: %.1f %%\n", n[2], n[3], n[2] > 0 ? 100 * n[3] / n[2] : 0);
  static const prof_group groups[] = {{{0, 1}, 2, 1}, {{2, 3}, 2, 1}};
  const counter_table table = {events, groups, cached ? 2 : 1, "      cycles instructions     in a cycle  cache misses",
                               put_ipc_row};
  return prof_counters_by_part(p, &table, allocator, out, err);
}

static td_status go_down(const prof_counting *p, const td_allocator *allocator, prof_out *out, td_error *err) {
  bool done = false;
  if (levels_of(p)) {
    TRY(count_topdown(p, allocator, &done, out, err));
    if (!done) prof_put(out, "instead of top-down analysis: instructions per cycle and caches\n");
  }
  if (!done) {
    TRY(count_ipc(p, allocator, &done, out, err));
    if (!done) prof_put(out, "instead of counters: times, held against the roofline\n");
  }
  return TD_OK;
}

td_status prof_count(const prof_counting *counting, const td_allocator *allocator, td_write_fn write, void *user,
                     td_error *err) {
  prof_out out = {.write = write, .user = user, .text = {.allocator = allocator}};
  const td_status status = go_down(counting, allocator, &out, err), written = prof_finish(&out);
  if (status != TD_OK || written == TD_OK) return status;
  return base_fail(err, written, NULL, -1, "what was counted could not be written");
}
