/* topology.c -- CPUs in the order of their cores, and sets of CPUs as text. */
#include "sys/topology_priv.h"

#include <stdlib.h>

/* ---- sets ---- */

void sys_set_add(sys_cpu_set *set, uint32_t number) {
  if (number < SYS_MOST_CPUS) set->words[number / 64] |= UINT64_C(1) << number % 64;
}

bool sys_set_has(const sys_cpu_set *set, uint32_t number) {
  return number < SYS_MOST_CPUS && set->words[number / 64] >> number % 64 & 1;
}

uint32_t sys_set_count(const sys_cpu_set *set) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < SYS_MOST_CPUS; i++) count += sys_set_has(set, i);
  return count;
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* A number below SYS_MOST_CPUS from *at on. */
static bool take_number(base_str list, size_t *at, uint32_t *number) {
  const size_t start = *at;
  *number = 0;
  for (; *at < list.length && list.at[*at] >= '0' && list.at[*at] <= '9'; ++*at) {
    *number = *number * 10 + (uint32_t)(list.at[*at] - '0');
    if (*number >= SYS_MOST_CPUS) return false;
  }
  return *at > start;
}

bool sys_set_parse(base_str list, sys_cpu_set *set) {
  while (list.length && is_blank(*list.at)) list.at++, list.length--;
  while (list.length && is_blank(list.at[list.length - 1])) list.length--;
  for (size_t at = 0;; at++) {
    uint32_t low, high;
    if (!take_number(list, &at, &low)) return false;
    high = low;
    if (at < list.length && list.at[at] == '-') {
      at++;
      if (!take_number(list, &at, &high) || high < low) return false;
    }
    for (uint32_t i = low; i <= high; i++) sys_set_add(set, i);
    if (at == list.length) return true;
    if (list.at[at] != ',') return false;
  }
}

void sys_set_print(const sys_cpu_set *set, base_text *text) {
  const char *comma = "";
  for (uint32_t i = 0; i < SYS_MOST_CPUS; i++) {
    if (!sys_set_has(set, i)) continue;
    const uint32_t low = i;
    while (sys_set_has(set, i + 1)) i++;
    base_text_print(text, low == i ? "%s%u" : "%s%u-%u", comma, low, i);
    comma = ",";
  }
}

/* ---- order ---- */

static int compare(uint32_t a, uint32_t b) { return (a > b) - (a < b); }

static int by_core_key(const void *a, const void *b) {
  const sys_found_cpu *x = a, *y = b;
  const int core = compare(x->core_key, y->core_key);
  return core ? core : compare(x->number, y->number);
}

static int by_cache_key(const void *a, const void *b) {
  const sys_found_cpu *x = a, *y = b;
  const int cache = compare(x->l3_key, y->l3_key);
  return cache ? cache : compare(x->number, y->number);
}

/* Both keys are the lowest CPU number of the core and of the cache by now. */
static int by_place(const void *a, const void *b) {
  const sys_found_cpu *x = a, *y = b;
  int order = compare(x->package, y->package);
  if (!order) order = compare(x->node, y->node);
  if (!order) order = compare(x->l3_key, y->l3_key);
  if (!order) order = compare(x->core_key, y->core_key);
  return order ? order : compare(x->number, y->number);
}

/* Makes the lowest CPU number of each core (or cache) its key: a reader's keys say what is one, but no order. */
static void name_by_lowest(sys_found_cpus *found, bool cache) {
  qsort(found->at, found->count, sizeof *found->at, cache ? by_cache_key : by_core_key);
  for (uint32_t i = 0; i < found->count;) {
    const uint32_t lowest = found->at[i].number, key = cache ? found->at[i].l3_key : found->at[i].core_key;
    while (i < found->count && (cache ? found->at[i].l3_key : found->at[i].core_key) == key) {
      if (cache) found->at[i++].l3_key = lowest;
      else found->at[i++].core_key = lowest;
    }
  }
}

static void count_parts(sys_topology *t) {
  sys_cpu_set packages = {0}, nodes = {0};
  for (uint32_t i = 0; i < t->count; i++) {
    sys_set_add(&packages, t->cpus[i].package);
    sys_set_add(&nodes, t->cpus[i].node);
    t->allowed += t->cpus[i].allowed;
  }
  t->packages = sys_set_count(&packages);
  t->nodes = sys_set_count(&nodes);
}

td_status sys_topology_of(sys_found_cpus *found, base_arena *arena, sys_topology *t, td_error *err) {
  if (found->count == 0) return base_fail(err, TD_BAD_FILE, "topology", -1, "it has no CPU");
  name_by_lowest(found, false);
  name_by_lowest(found, true);
  qsort(found->at, found->count, sizeof *found->at, by_place);
  *t = (sys_topology){.cpus = base_new(arena, sys_cpu, found->count)};
  if (!t->cpus) return base_no_memory(err, "a topology");
  for (uint32_t i = 0; i < found->count; i++) {
    const sys_found_cpu *f = &found->at[i], *before = i ? f - 1 : NULL;
    const bool new_cache = !before || before->l3_key != f->l3_key,
               new_core = !before || before->core_key != f->core_key;
    if (before && before->number == f->number)
      return base_fail(err, TD_BAD_FILE, "topology", -1, "CPU %u is there twice", f->number);
    t->l3s += new_cache;
    t->cores += new_core;
    t->cpus[t->count++] = (sys_cpu){.number = f->number,
                                    .core = t->cores - 1,
                                    .thread = new_core ? 0 : t->cpus[i - 1].thread + 1,
                                    .package = f->package,
                                    .node = f->node,
                                    .l3 = t->l3s - 1,
                                    .efficient = f->efficient,
                                    .allowed = f->allowed};
  }
  count_parts(t);
  return TD_OK;
}

const sys_cpu *sys_topology_find(const sys_topology *t, uint32_t number) {
  for (uint32_t i = 0; i < t->count; i++)
    if (t->cpus[i].number == number) return &t->cpus[i];
  return NULL;
}

uint32_t sys_topology_caches(const sys_topology *t, const uint32_t *cpus, uint32_t count) {
  sys_cpu_set caches = {0};
  for (uint32_t i = 0; i < count; i++) {
    const sys_cpu *cpu = sys_topology_find(t, cpus[i]);
    if (cpu) sys_set_add(&caches, cpu->l3);
  }
  return sys_set_count(&caches);
}
