/* machine.c -- the machine, for `treadle info`. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

#include "common/measure.h"
#include "open.h"
#include "sys/sys.h"
#include "sys/topology.h"
#include "common/threads.h"

typedef struct facts {
  sys_machine machine;
  sys_topology topology;
  app_threads asked;
  char large_pages[16]; /* "always", "madvise", "never"; "" when unknown */
  const char *preloaded;
} facts;

/* The word in brackets: "always [madvise] never". */
static void read_large_pages(char *word, size_t size) {
  char text[64] = "";
  FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
  if (file && !fgets(text, sizeof text, file)) text[0] = 0;
  if (file) fclose(file);
  const char *start = strchr(text, '[');
  snprintf(word, size, "%.*s", start ? (int)strcspn(start + 1, "]") : 0, start ? start + 1 : "");
}

static td_status read_facts(const cli_args *args, facts *f, td_error *err) {
  sys_machine_read(&f->machine);
  TRY(sys_topology_read("", args->arena, &f->topology, err));
  TRY(cli_threads_of(args, &f->asked, err));
  read_large_pages(f->large_pages, sizeof f->large_pages);
  const char *preload = getenv("LD_PRELOAD");
  f->preloaded = preload && strstr(preload, "malloc") ? preload : NULL;
  return TD_OK;
}

static uint32_t threads_of(const facts *f) { return f->asked.count ? f->asked.count : f->machine.threads; }

static bool keeps(const facts *f) {
  return sys_keeps_threads(threads_of(f), f->topology.allowed, f->topology.quota_cpus);
}

static const char *reason(const facts *f) {
  if (f->asked.variable) return f->asked.variable;
  return f->machine.threads < f->machine.allowed_cpus ? "the whole CPUs of the cgroup's quota"
                                                      : "every CPU that affinity allows";
}

/* The variables that change what commands do, or where other programs' threads are. */
static const char *const variables[] = {"TREADLE_NUM_THREADS", "OMP_NUM_THREADS",  "MKL_NUM_THREADS",
                                        "LD_PRELOAD",          "XDG_CACHE_HOME",   "OMP_PROC_BIND",
                                        "KMP_AFFINITY",        "GOMP_CPU_AFFINITY"};
enum { VARIABLES = sizeof variables / sizeof *variables };

/* ---- text ---- */

static void set_text(const sys_topology *t, bool allowed, base_text *text) {
  sys_cpu_set set = {0};
  for (uint32_t i = 0; i < t->count; i++)
    if (t->cpus[i].allowed || !allowed) sys_set_add(&set, t->cpus[i].number);
  sys_set_print(&set, text);
}

/* A line for each L3 cache, its cores in brackets: "[0 56] [1 57]"; in parentheses where they are not allowed. */
static void print_picture(const sys_topology *t) {
  enum { LINES = 16, WIDTH = 100 };
  uint32_t lines = 0;
  int column = 0;
  for (uint32_t i = 0; i < t->count; i++) {
    const sys_cpu *c = &t->cpus[i], *before = i ? c - 1 : NULL;
    if (!before || before->l3 != c->l3) {
      if (lines++ == LINES) {
        printf("\n  ... and %u more caches", t->l3s - LINES);
        break;
      }
      column = printf("%s  package %u, node %u, L3 %u:", before ? "\n" : "", c->package, c->node, c->l3);
    }
    if (c->thread == 0 && column > WIDTH) column = printf("\n     ");
    const bool last = i + 1 == t->count || t->cpus[i + 1].core != c->core;
    column += printf("%s%u", c->thread ? " " : c->allowed ? c->efficient ? " e[" : " [" : " (", c->number);
    if (last) column += printf("%s", t->cpus[i - c->thread].allowed ? "]" : ")");
  }
  printf("\n");
}

static void print_threads(const facts *f) {
  const sys_topology *t = &f->topology;
  base_text allowed = {.allocator = &base_libc_allocator};
  set_text(t, true, &allowed);
  const uint32_t threads = threads_of(f);
  printf("threads: %u in a step and %u for forked tasks, by %s\n", threads, threads, reason(f));
  printf("  affinity: CPUs %s, %u of %u online; quota: ", allowed.at ? allowed.at : "?", t->allowed, t->count);
  if (t->quota_cpus > 0) printf("%g CPUs", t->quota_cpus);
  else printf("none");
  printf("; threads are kept on %s\n", keeps(f) ? "a CPU each" : "no CPU");
  base_text_free(&allowed);
}

static void print_environment(void) {
  bool any = false;
  for (size_t i = 0; i < VARIABLES; i++) {
    const char *value = getenv(variables[i]);
    if (value) printf("%s %s=%s", any ? "" : "environment:", variables[i], value);
    any |= value != NULL;
  }
  printf("%s\n", any ? "" : "environment: nothing set that counts");
}

td_status cli_machine_print(const cli_args *args, td_error *err) {
  facts f;
  char l1d[24], l2[24], l3[24], memory[24];
  TRY(read_facts(args, &f, err));
  const sys_machine *m = &f.machine;
  const sys_topology *t = &f.topology;
  printf("machine: %s, %s\n", m->cpu_name[0] ? m->cpu_name : "unknown CPU", app_isa_name(m->isa));
  printf("  caches: L1d %s, L2 %s, L3 %s; memory %s\n", app_bytes_text(l1d, sizeof l1d, m->l1d_bytes),
         app_bytes_text(l2, sizeof l2, m->l2_bytes), app_bytes_text(l3, sizeof l3, m->l3_bytes),
         app_bytes_text(memory, sizeof memory, m->memory_bytes));
  print_threads(&f);
  printf("cores: %u, CPUs: %u, packages: %u, NUMA nodes: %u\n", t->cores, t->count, t->packages, t->nodes);
  print_picture(t);
  printf("large pages: %s; allocator: %s\n", f.large_pages[0] ? f.large_pages : "unknown",
         f.preloaded ? f.preloaded : "the C library's, and one arena for each session");
  print_environment();
  return TD_OK;
}

/* ---- JSON ---- */

static json_t *topology_json(const sys_topology *t) {
  json_t *cpus = json_array();
  for (uint32_t i = 0; i < t->count; i++) {
    const sys_cpu *c = &t->cpus[i];
    app_json_set(cpus, NULL,
                 json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:b,s:b}", "cpu", c->number, "core", c->core, "thread", c->thread,
                           "package", c->package, "node", c->node, "l3", c->l3, "efficient", c->efficient, "allowed",
                           c->allowed));
  }
  return cpus;
}

td_status cli_machine_json(const cli_args *args, json_t **machine, td_error *err) {
  facts f;
  *machine = json_object();
  TRY(read_facts(args, &f, err));
  const sys_machine *m = &f.machine;
  json_t *object = *machine, *environment = json_object();
  app_json_set(object, "cpu", app_json_text(m->cpu_name));
  app_json_set(object, "isa", app_json_text(app_isa_name(m->isa)));
  app_json_set(object, "threads", json_integer(threads_of(&f)));
  app_json_set(object, "interop_threads", json_integer(threads_of(&f)));
  app_json_set(object, "threads_by", app_json_text(reason(&f)));
  app_json_set(object, "threads_kept", json_boolean(keeps(&f)));
  app_json_set(object, "allowed_cpus", json_integer(m->allowed_cpus));
  app_json_set(object, "quota_cpus", m->quota_cpus > 0 ? app_json_real(m->quota_cpus) : json_null());
  app_json_set(object, "l1d_bytes", json_integer((json_int_t)m->l1d_bytes));
  app_json_set(object, "l2_bytes", json_integer((json_int_t)m->l2_bytes));
  app_json_set(object, "l3_bytes", json_integer((json_int_t)m->l3_bytes));
  app_json_set(object, "memory_bytes", json_integer((json_int_t)m->memory_bytes));
  app_json_set(object, "large_pages", f.large_pages[0] ? app_json_text(f.large_pages) : json_null());
  app_json_set(object, "cpus", topology_json(&f.topology));
  for (size_t i = 0; i < VARIABLES; i++)
    if (getenv(variables[i])) app_json_set(environment, variables[i], app_json_text(getenv(variables[i])));
  app_json_set(object, "environment", environment);
  return TD_OK;
}
