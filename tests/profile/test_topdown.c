/* test_topdown.c -- the arithmetic of top-down analysis on counts of each family, and the ladder on machines that are
 * played: a table of counters that says yes, no, or less. */
#include "test.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "profile/counters.h"

/* ---- a machine ---- */

typedef struct count {
  uint64_t config, value; /* per run */
} count;

typedef struct machine {
  const count *counts;
  int refuse; /* with this error number */
  uint64_t refused_config;
  double share;
  const sys_event *open[512];
  int handles, live, runs;
  td_observer observer; /* of runs by thread and class: two threads, two steps each */
  bool parts;
} machine;

static int open_event(void *user, const sys_event *event, int leader) {
  machine *m = user;
  if (m->refuse && (m->refused_config == 0 || m->refused_config == event->config)) return -m->refuse;
  assert_true(m->handles < 512 && leader < m->handles);
  m->open[m->handles] = event;
  m->live++;
  return m->handles++;
}

static bool set_group(void *user, int leader, bool on) {
  machine *m = user;
  assert_true(leader < m->handles);
  if (on) m->runs = 0;
  return true;
}

static bool read_group(void *user, int leader, uint64_t *counts, uint32_t number, double *share) {
  machine *m = user;
  for (uint32_t i = 0; i < number; i++) {
    const sys_event *event = m->open[(uint32_t)leader + i];
    counts[i] = event->type == SYS_HARDWARE ? 1000 * (event->config + 1) * (uint64_t)m->runs : 0;
    for (const count *c = m->counts; event->type == SYS_RAW && c && c->config; c++)
      if (c->config == event->config) counts[i] = (uint64_t)((double)c->value * m->runs * m->share);
  }
  *share = m->share;
  return true;
}

static void close_event(void *user, int handle) {
  machine *m = user;
  assert_true(handle < m->handles);
  m->live--;
}

static td_status one_run(void *user, td_error *err) {
  machine *m = user;
  const td_observer *o = &m->observer;
  (void)err;
  if (!o->enter) return m->runs++, TD_OK;
  for (uint32_t part = 0; part < 4; part++) {
    o->enter(o->user, part / 2, part % 2);
    m->runs++; /* as much as a whole run */
    o->part(o->user, part / 2, part % 2, 0, 1);
  }
  return TD_OK;
}

static void observe(void *user, const td_observer *observer) {
  ((machine *)user)->observer = observer ? *observer : (td_observer){0};
}

static const char *class_of_step(void *user, uint32_t step) {
  (void)user;
  return step ? "pointwise" : "matrix product";
}

static td_status collect(void *user, const char *bytes, size_t size) {
  base_text_add(user, bytes, size);
  return TD_OK;
}

/* What the ladder says; the caller frees it. */
static base_text counted(machine *m, const prof_family *family, const char *level, int paranoid, bool has_pmu) {
  const sys_counters counters = {.user = m,
                                 .open = open_event,
                                 .set = set_group,
                                 .read = read_group,
                                 .close = close_event,
                                 .paranoid = paranoid,
                                 .has_pmu = has_pmu};
  const prof_counting p = {.counters = &counters,
                           .family = family,
                           .cpu = "a CPU",
                           .level = level,
                           .runs = 7,
                           .run = one_run,
                           .user = m,
                           .observe = m->parts ? observe : NULL,
                           .class_of_step = class_of_step,
                           .threads = 2,
                           .steps = 2};
  base_text text = {.allocator = &base_libc_allocator};
  td_error err;
  assert_int_equal(prof_count(&p, &base_libc_allocator, collect, &text, &err), TD_OK);
  assert_int_equal(m->live, 0);
  return text;
}

static void holds(const base_text *text, const char *part) {
  if (!text->at || !strstr(text->at, part)) fail_msg("'%s' is not in:\n%s", part, text->at ? text->at : "");
}

static const prof_family *named(const char *name) {
  for (size_t i = 0; prof_family_at(i); i++)
    if (strcmp(prof_family_at(i)->name, name) == 0) return prof_family_at(i);
  fail_msg("there is no %s", name);
  return NULL;
}

/* ---- arithmetic: counts by code, as a log of perf has them. These are no recordings: they were chosen so that what
 * comes out can be worked out by hand from the vendors' formulas; recordings follow below. ---- */

/* 1000 cycles, 4000 slots: 400 not delivered, 2500 issued, 2400 retired, 25 cycles of recovery. */
static const count skylake[] = {{0x3c, 1000},      {0x20003c, 1000}, {0x19c, 400},     {0x10e, 2500},   {0x2c2, 2400},
                                {0x10d, 25},       {0x20010d, 25},   {0x400019c, 60},  {0xc5, 3},       {0x10401c3, 1},
                                {0x140014a3, 200}, {0x40004a3, 260}, {0xc000ca3, 120}, {0x50005a3, 80}, {0x60006a3, 50},
                                {0x40a6, 20},      {0x2a6, 40},      {0x4a6, 100},     {0x1a6, 30},     {0x1000114, 10},
                                {0x2d1, 90},       {0x40d1, 10},     {0x8d1, 100},     {0x1000248, 1},  {0x4c2, 100},
                                {0xc0, 2300},      {0x1000860, 150}, {0x4000860, 30},  {0, 0}};
static const count ice_lake[] = {{0x400, 5000},   {0x8000, 2500}, {0x8100, 250},     {0x8200, 500},    {0x8300, 1750},
                                 {0x100d, 50},    {0x104010d, 2}, {0x3c, 1000},      {0x500019c, 40},  {0xc5, 3},
                                 {0x10e, 2600},   {0x2c2, 2500},  {0x140014a3, 200}, {0x40004a3, 260}, {0x20040a6, 20},
                                 {0x2a6, 40},     {0x4a6, 100},   {0x80a6, 30},      {0xc000ca3, 120}, {0x50005a3, 80},
                                 {0x60006a3, 50}, {0x1040248, 1}, {0x2d1, 90},       {0x40d1, 10},     {0x8d1, 100},
                                 {0x1000914, 10}, {0x3079, 52},   {0x156, 30},       {0x1000156, 20},  {0x479, 100},
                                 {0, 0}};
static const count sapphire[] = {
    {0x400, 6000},    {0x8000, 3000},   {0x8100, 300},    {0x8200, 600},    {0x8300, 2100}, {0x8400, 300},
    {0x8500, 200},    {0x8600, 400},    {0x8700, 1500},   {0x10ad, 60},     {0x3c, 1000},   {0x50021a6, 300},
    {0x3000347, 200}, {0x5000547, 150}, {0x9000947, 120}, {0x20040a6, 20},  {0x2a6, 40},    {0xca6, 100},
    {0x10009b0, 10},  {0x2b7, 600},     {0x1000820, 500}, {0x4000820, 410}, {0, 0}};
static const count zen4[] = {{0x76, 1000},  {0x1000001a0, 600}, {0x100001ea0, 3000}, {0x1000060a0, 0},
                             {0x7aa, 2400}, {0xc1, 2280},       {0x1060001a0, 50},   {0x1000000c2, 114},
                             {0xc3, 9},     {0x96, 1},          {0xa2d6, 60},        {0x2d6, 80},
                             {0, 0}};
static const count zen5[] = {{0x76, 1000},  {0x1000001a0, 800}, {0x100001ea0, 4000}, {0x1000060a0, 800},
                             {0x7aa, 2400}, {0xc1, 2400},       {0x1080001a0, 50},   {0x1000000c2, 0},
                             {0xc3, 1},     {0x19f, 1},         {0xa2d6, 20},        {0x2d6, 80},
                             {0, 0}};

typedef struct expectation {
  prof_node_id node;
  double value;
} expectation;

static const struct {
  const char *family;
  const count *counts;
  expectation parts[14];
  prof_node_id worst;
} cases[] = {
    {"Skylake-SP, Cascade Lake",
     skylake,
     {{PROF_FRONTEND, 0.1},
      {PROF_BAD_SPECULATION, 0.05},
      {PROF_RETIRING, 0.6},
      {PROF_BACKEND, 0.25},
      {PROF_FETCH_LATENCY, 0.06},
      {PROF_MISPREDICTS, 0.0375},
      {PROF_MEMORY, 0.25 * 220 / 380},
      {PROF_HEAVY, 0.05},
      {PROF_L1, 0.08},
      {PROF_L3, 0.03},
      {PROF_DRAM, 0.05 + 0.04 - 0.04 * 99 / 100},
      {PROF_PORTS, 0.13}},
     PROF_CORE},
    {"Ice Lake-SP",
     ice_lake,
     {{PROF_FRONTEND, 0.09},
      {PROF_RETIRING, 0.5},
      {PROF_BACKEND, 0.352},
      {PROF_BAD_SPECULATION, 0.058},
      {PROF_FETCH_LATENCY, 0.03},
      {PROF_MISPREDICTS, 0.058 * 0.6},
      {PROF_MEMORY, 0.352 * 220 / 370},
      {PROF_HEAVY, 0.01 + 0.05},
      {PROF_STORES, 0.02}},
     PROF_MEMORY},
    {"Sapphire Rapids",
     sapphire,
     {{PROF_FRONTEND, 0.09},
      {PROF_RETIRING, 0.5},
      {PROF_BACKEND, 0.35},
      {PROF_MEMORY, 0.25},
      {PROF_CORE, 0.1},
      {PROF_FETCH_LATENCY, 400.0 / 6000 - 0.01},
      {PROF_L1, 0.1},
      {PROF_L2, 0.05},
      {PROF_DRAM, 0.12},
      {PROF_DRAM_BANDWIDTH, 0.41},
      {PROF_DRAM_LATENCY, 0.09},
      {PROF_AMX, 0.6}},
     PROF_DRAM_BANDWIDTH},
    {"Zen 4",
     zen4,
     {{PROF_FRONTEND, 0.1},
      {PROF_BAD_SPECULATION, 0.02},
      {PROF_RETIRING, 0.38},
      {PROF_BACKEND, 0.5},
      {PROF_FETCH_LATENCY, 0.05},
      {PROF_MISPREDICTS, 0.018},
      {PROF_MEMORY, 0.375},
      {PROF_CORE, 0.125},
      {PROF_HEAVY, 0.019}},
     PROF_MEMORY},
    {"Zen 5",
     zen5,
     {{PROF_FRONTEND, 0.1},
      {PROF_BACKEND, 0.5},
      {PROF_RETIRING, 0.3},
      {PROF_SMT, 0.1},
      {PROF_MEMORY, 0.125},
      {PROF_CORE, 0.375}},
     PROF_CORE},
};

/* The counts of a family by the numbers of its events. */
static void fill(const prof_family *f, const count *counts, double *by_event) {
  for (int i = 0; i < PROF_MOST_EVENTS; i++)
    for (const count *c = counts; f->events[i].name && c->config; c++)
      if (c->config == f->events[i].config) by_event[i] = (double)c->value;
}

static void formulas(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    const prof_family *f = named(cases[k].family);
    double counts[PROF_MOST_EVENTS] = {0}, nodes[PROF_NODES];
    fill(f, cases[k].counts, counts);
    f->solve(counts, false, nodes);
    for (int i = 0; i < 14 && cases[k].parts[i].value > 0; i++) {
      const expectation *e = &cases[k].parts[i];
      if (!(fabs(nodes[e->node] - e->value) < 1e-9))
        fail_msg("%s: %s is %g, not %g", f->name, prof_nodes[e->node].name, nodes[e->node], e->value);
    }
    assert_int_equal(prof_worst_node(nodes), cases[k].worst);
  }
}

/* ---- recordings: counts that people published together with what perf made of them, in per cent with one decimal.
 * Nobody did for Zen 5, nor for the memory nodes of level 3. Each log has a part of a family's events: what needs
 * others is not looked at. ---- */

typedef struct recording {
  const char *family;
  bool smt;
  count counts[14];
  expectation parts[12]; /* in per cent */
} recording;

static const recording recordings[] = {
    /* Cascade Lake, `perf bench internals synthesize` as root; Kan Liang to linux-kernel, May 2023, on "perf stat:
     * Introduce skippable evsels". SMT is on, the core's other thread idle: a core's cycles are the thread's, which
     * .ANY counts twice. perf counted in two groups, whose cycles and slots are their own. */
    {"Skylake-SP, Cascade Lake",
     true,
     {{0x3c, 9553472893},
      {0x20003c, 2 * 9553472893},
      {0x20010d, 228406003},
      {0x2c2, 22893372651},
      {0x10e, 24180375299}},
     {{PROF_RETIRING, 59.9}, {PROF_BAD_SPECULATION, 4.6}}},
    {"Skylake-SP, Cascade Lake",
     true,
     {{0x3c, 9538354333},
      {0x20003c, 2 * 9538354333},
      {0x20010d, 228798426},
      {0x19c, 10735205084},
      {0x10e, 24207967071}},
     {{PROF_FRONTEND, 28.1}, {PROF_BACKEND, 7.2}}},
    /* An Ice Lake core, `perf bench mem memcpy`; perf wiki, "Top-Down Analysis". */
    {"Ice Lake-SP",
     true,
     {{0x400, 69746420},
      {0x8000, 18599045},
      {0x8100, 4376245},
      {0x8200, 17504983},
      {0x8300, 29266144},
      {0x104010d, 55050},
      {0x140014a3, 2934845},
      {0x40004a3, 6667954},
      {0x20040a6, 1253770},
      {0x2a6, 1769443},
      {0x4a6, 1775168}},
     {{PROF_RETIRING, 26.7}, {PROF_FRONTEND, 25.1}, {PROF_MEMORY, 17.5}, {PROF_CORE, 24.9}}},
    {"Ice Lake-SP",
     true,
     {{0x400, 70285910},
      {0x3c, 14057182},
      {0x8000, 18467278},
      {0x8100, 4410096},
      {0x8200, 17364754},
      {0x8300, 30043781},
      {0x140014a3, 3054356},
      {0x40004a3, 6685779},
      {0x2a6, 1754496},
      {0x4a6, 1767046},
      {0x80a6, 2165618},
      {0x1000914, 9354}},
     {{PROF_RETIRING, 26.3}, {PROF_FRONTEND, 24.7}, {PROF_PORTS, 31.2}, {PROF_DIVIDER, 0.1}}},
    /* Sapphire Rapids, `perf stat sleep 1`; Kan Liang to linux-kernel, July 2021, "perf stat: Add Topdown metrics L2
     * events as default events". */
    {"Sapphire Rapids",
     true,
     {{0x400, 8431908},
      {0x8000, 1554116},
      {0x8100, 1289585},
      {0x8200, 2810636},
      {0x8300, 2810636},
      {0x8400, 231464},
      {0x8500, 1223453},
      {0x8600, 1884779},
      {0x8700, 1454917}},
     {{PROF_RETIRING, 18.4},
      {PROF_BAD_SPECULATION, 15.2},
      {PROF_FRONTEND, 33.2},
      {PROF_BACKEND, 33.2},
      {PROF_HEAVY, 2.7},
      {PROF_LIGHT, 15.6},
      {PROF_MISPREDICTS, 14.5},
      {PROF_CLEARS, 0.8},
      {PROF_FETCH_LATENCY, 22.3},
      {PROF_FETCH_BANDWIDTH, 10.9},
      {PROF_MEMORY, 17.2},
      {PROF_CORE, 16.0}}},
    /* Zen 4 (8 cores, 5.57 GHz): `perf stat -M PipelineL2` of two programs that people published on GitHub, the first
     * waiting for memory, the second for its own results, too. perf counted the groups one after the other, so cycles
     * differ by a thousandth. */
    {"Zen 4",
     true,
     {{0x76, 5412172995},
      {0xc3, 1295009},
      {0x96, 1011},
      {0x7aa, 7932465405},
      {0xc1, 7919661057},
      {0xa2d6, 3657100890},
      {0x2d6, 4129309128},
      {0x100001ea0, 24113912179},
      {0x1000000c2, 4242200},
      {0x1000001a0, 381331845},
      {0x1060001a0, 17090918}},
     {{PROF_MEMORY, 65.8},
      {PROF_CORE, 8.5},
      {PROF_LIGHT, 24.3},
      {PROF_FETCH_BANDWIDTH, 0.9},
      {PROF_FETCH_LATENCY, 0.3}}},
    {"Zen 4",
     true,
     {{0x76, 38181077381},
      {0xc3, 28162650},
      {0x96, 1166489},
      {0x7aa, 34700574158},
      {0xc1, 33044695760},
      {0xa2d6, 22452988267},
      {0x2d6, 30710508182},
      {0x100001ea0, 187341352204},
      {0x1000000c2, 102907056},
      {0x1000001a0, 6842680662},
      {0x1060001a0, 907880396}},
     {{PROF_MEMORY, 59.8},
      {PROF_CORE, 22.0},
      {PROF_MISPREDICTS, 0.7},
      {PROF_LIGHT, 14.4},
      {PROF_FETCH_BANDWIDTH, 0.6},
      {PROF_FETCH_LATENCY, 2.4}}},
};

static void recorded_counts(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof recordings / sizeof *recordings; k++) {
    const recording *r = &recordings[k];
    const prof_family *f = named(r->family);
    double counts[PROF_MOST_EVENTS] = {0}, nodes[PROF_NODES];
    fill(f, r->counts, counts);
    f->solve(counts, r->smt, nodes);
    for (int i = 0; i < 12 && r->parts[i].value > 0; i++) {
      const expectation *e = &r->parts[i];
      if (!(fabs(100 * nodes[e->node] - e->value) < 0.11)) /* both rounded, and a thousandth of cycles */
        fail_msg("%s, recording %zu: %s is %.2f %%, perf said %.1f %%", f->name, k, prof_nodes[e->node].name,
                 100 * nodes[e->node], e->value);
    }
  }
}

/* With two threads on a core, its slots are counted over both. */
static void threads_share_a_core(void **state) {
  (void)state;
  const prof_family *f = named("Skylake-SP, Cascade Lake");
  double counts[PROF_MOST_EVENTS] = {0}, nodes[PROF_NODES];
  fill(f, skylake, counts);
  f->solve(counts, true, nodes);
  assert_true(fabs(nodes[PROF_FRONTEND] - 0.2) < 1e-9);
}

/* Counters that stand still are no division by zero. */
static void nothing_was_counted(void **state) {
  (void)state;
  for (size_t i = 0; prof_family_at(i); i++) {
    const double counts[PROF_MOST_EVENTS] = {0};
    double nodes[PROF_NODES];
    prof_family_at(i)->solve(counts, false, nodes);
    for (int k = 0; k < PROF_NODES; k++) assert_true(isnan(nodes[k]) || isfinite(nodes[k]));
  }
}

static void tables_are_whole(void **state) {
  (void)state;
  for (int i = 0; i < PROF_NODES; i++) {
    const prof_node *n = &prof_nodes[i];
    assert_true(n->name && n->advice && n->threshold > 0);
    assert_int_equal(n->level == 1 ? n->level : prof_nodes[n->parent].level + 1, n->level);
  }
  for (size_t i = 0; prof_family_at(i); i++)
    for (uint32_t g = 0; g < prof_family_at(i)->group_count; g++) {
      const prof_group *group = &prof_family_at(i)->groups[g];
      assert_in_range(group->count, 1, PROF_GROUP_EVENTS);
      for (uint32_t k = 0; k < group->count; k++) {
        assert_non_null(prof_family_at(i)->events[group->events[k]].name);
        assert_true(k == 0 ||
                    group->events[k] != 0); /* event 0, cycles, only begins groups: behind their end it stands */
      }
    }
}

static void families_are_found(void **state) {
  (void)state;
  static const struct {
    const char *vendor, *name;
    uint32_t family, model;
  } known[] = {{"GenuineIntel", "Skylake-SP, Cascade Lake", 6, 85},
               {"GenuineIntel", "Ice Lake-SP", 6, 106},
               {"GenuineIntel", "Sapphire Rapids", 6, 143},
               {"AuthenticAMD", "Zen 4", 25, 17},
               {"AuthenticAMD", "Zen 5", 26, 2},
               {"AuthenticAMD", NULL, 25, 1},
               {"GenuineIntel", NULL, 6, 60},
               {"", NULL, 0, 0}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const prof_family *f = prof_family_of(known[i].vendor, known[i].family, known[i].model);
    assert_true(known[i].name ? f && strcmp(f->name, known[i].name) == 0 : f == NULL);
  }
}

/* ---- the ladder ---- */

static void all_the_way_up(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    machine m = {.counts = cases[k].counts, .share = 1};
    base_text text = counted(&m, named(cases[k].family), "tma", 2, true);
    holds(&text, cases[k].family);
    holds(&text, " <==\n");
    holds(&text, prof_nodes[cases[k].worst].advice);
    base_text_free(&text);
  }
}

/* The first levels alone: nodes behind them are not shown, and events that only those need are not counted. */
static void as_many_levels_as_are_asked_for(void **state) {
  (void)state;
  static const char *const levels[] = {"tma1", "tma2", "tma3", "tma"};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    int counted_first = 0, before = 0;
    for (int level = 0; level < 4; level++) {
      machine m = {.counts = cases[k].counts, .share = 1};
      double nodes[PROF_NODES] = {0};
      base_text text = counted(&m, named(cases[k].family), levels[level], 2, true);
      holds(&text, prof_nodes[PROF_BACKEND].name);
      for (int i = 0; i < PROF_NODES && level < 3; i++) {
        char row[64];
        snprintf(row, sizeof row, "%*s%s ", 2 * (prof_nodes[i].level - 1), "", prof_nodes[i].name);
        if (prof_nodes[i].level > level + 1 && strstr(text.at, row)) fail_msg("%s has\n%s", levels[level], text.at);
      }
      prof_keep_levels(nodes, level + 1);
      for (int i = 0; i < PROF_NODES; i++) assert_int_equal(isnan(nodes[i]) != 0, prof_nodes[i].level > level + 1);
      if (level == 0) counted_first = m.handles; /* events that were opened */
      assert_true(m.handles >= before && (level < 3 || m.handles > counted_first));
      before = m.handles;
      base_text_free(&text);
    }
  }
}

/* Which error, on which machine, at which event: what is said, and where one stands then. */
static void down_the_ladder(void **state) {
  (void)state;
  static const struct {
    int refuse, paranoid;
    bool has_pmu;
    uint64_t config;
    const char *says, *then;
  } steps[] = {
      {ENOENT, 2, false, 0,
       "without a virtual PMU; one that has it, or a machine of one's own, counts (perf_event_open: No such file",
       "instead of counters: times"},
      {EACCES, 4, true, 0, "kernel.perf_event_paranoid is 4;", "instead of counters: times"},
      {EPERM, 2, true, 0, "--cap-add PERFMON", "instead of counters: times"},
      {EMFILE, 2, true, 0, "ulimit -n", "instead of counters: times"},
      {ENXIO, 2, true, 0, "the hypervisor hides a register", "instead of counters: times"},
      {EINVAL, 2, true, 0x1000001a0, "no_dispatch.front_end cannot be counted", "2000 instructions: 2.00 in a cycle"},
  };
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    machine m = {.counts = zen4, .refuse = steps[i].refuse, .refused_config = steps[i].config, .share = 1};
    base_text text = counted(&m, named("Zen 4"), "tma", steps[i].paranoid, steps[i].has_pmu);
    holds(&text, steps[i].says);
    holds(&text, steps[i].then);
    base_text_free(&text);
  }
}

static void unknown_cpus_and_shared_counters(void **state) {
  (void)state;
  machine m = {.counts = zen4, .share = 1};
  base_text text = counted(&m, NULL, "tma", 2, true);
  holds(&text, "knows no events of this CPU (a CPU)");
  holds(&text, "3000 cache references, 4000 misses: 133.3 %");
  base_text_free(&text);
  machine shared = {.counts = zen4, .share = 0.5};
  text = counted(&shared, named("Zen 4"), "tma", 2, true);
  holds(&text, "counted in 50 % of the time");
  holds(&text, "nmi_watchdog");
  base_text_free(&text);
}

/* Each thread counts for itself, and what a step counts is its class's. */
static void threads_and_classes_are_told_apart(void **state) {
  (void)state;
  machine m = {.counts = zen4, .share = 1, .parts = true};
  base_text text = counted(&m, named("Zen 4"), "tma", 2, true);
  static const char row[] = "     10.0%      2.0%     50.0%     38.0%     37.5%     12.5%  Memory bound\n";
  static const char *const rows[] = {"thread 0            ", "thread 1            ", "matrix product      ",
                                     "pointwise           "};
  char line[160];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    snprintf(line, sizeof line, "%s%s", rows[i], row);
    holds(&text, line);
  }
  base_text_free(&text);
  machine plain = {.counts = zen4, .share = 1, .parts = true};
  text = counted(&plain, named("Zen 4"), "ipc", 2, true);
  holds(&text, "thread 1                     2000         4000         2.00         133.3 %\n");
  holds(&text, "pointwise                    2000         4000         2.00         133.3 %\n");
  base_text_free(&text);
  machine shared = {.counts = zen4, .share = 0.95, .parts = true}; /* enough for sums */
  text = counted(&shared, named("Zen 4"), "tma", 2, true);
  holds(&text, "thread 1 ");
  base_text_free(&text);
}

/* Whatever this machine has, opening says yes or gives a reason. */
static void this_machine(void **state) {
  (void)state;
  const sys_counters c = sys_counters_here();
  const sys_event cycles = {"cycles", SYS_HARDWARE, 0};
  const int handle = c.open(c.user, &cycles, -1);
  if (handle < 0) {
    assert_in_range(-handle, 1, 200);
    return;
  }
  uint64_t cycles_seen = 0;
  double share = 0;
  assert_true(c.set(c.user, handle, true));
  for (volatile int i = 0; i < 100000; i++) continue;
  assert_true(c.set(c.user, handle, false));
  assert_true(c.read(c.user, handle, &cycles_seen, 1, &share));
  assert_true(cycles_seen > 0 || share == 0);
  c.close(c.user, handle);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(formulas),
      cmocka_unit_test(recorded_counts),
      cmocka_unit_test(threads_share_a_core),
      cmocka_unit_test(nothing_was_counted),
      cmocka_unit_test(tables_are_whole),
      cmocka_unit_test(families_are_found),
      cmocka_unit_test(all_the_way_up),
      cmocka_unit_test(as_many_levels_as_are_asked_for),
      cmocka_unit_test(down_the_ladder),
      cmocka_unit_test(unknown_cpus_and_shared_counters),
      cmocka_unit_test(threads_and_classes_are_told_apart),
      cmocka_unit_test(this_machine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
