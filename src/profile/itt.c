/* itt.c -- a client of ITT, Intel's interface for instrumentation, made from its binary interface alone.
 *
 * A collector is a shared library. It is handed a block (`itt_global`) with a list of functions by name, and puts its
 * own into the places that the list names; what it does not know stays a function that does nothing. An older collector
 * without that entry exports the functions themselves. The objects that it makes (domains, texts) are never destroyed:
 * they are made once. Everything the collector may keep a pointer to lives until it is closed. */
#include <string.h>

#include "profile/ranges.h"
#include "sys/code.h"

/* ---- the binary interface ---- */

typedef struct itt_id {
  uint64_t words[3];
} itt_id;

/* `flags` 0: the collector does not want it. */
typedef struct itt_domain {
  volatile int flags;
  const char *name;
  void *wide_name;
  int extra;
  void *extra_pointer;
  struct itt_domain *next;
} itt_domain;
typedef struct itt_string itt_string;

typedef struct itt_entry {
  const char *name;
  void **slot;
  void *first, *none; /* what stands in the slot before, and without a collector */
  uint32_t group;
} itt_entry;

/* Groups of functions (control: with those of old), and states of the collector. */
enum { ITT_CONTROL = 1 << 0 | 1 << 1, ITT_STRUCTURE = 1 << 12, ITT_ALL = -1 };
enum { ITT_PATH_KNOWN = 3, ITT_INITIALISED = 4 };

typedef struct itt_global {
  unsigned char magic[8];
  uint64_t major, minor, built;
  int64_t initialised, mutex_ready, counter;
  uint64_t mutex[5]; /* a pthread_mutex_t that nobody locks, zeroed: it is valid */
  void *library, *error_handler;
  const char **path;
  itt_entry *entries;
  struct itt_global *next;
  void *threads, *domains, *strings;
  uint32_t state;
  void *counters;
  uint32_t pipe;
  void *histograms, *counter_metadata;
} itt_global;
_Static_assert(sizeof(itt_global) == 200 && offsetof(itt_global, library) == 96, "the layout of version 3");
_Static_assert(offsetof(itt_global, entries) == 120 && offsetof(itt_global, state) == 160, "the layout of version 3");
_Static_assert(sizeof(itt_entry) == 40 && sizeof(itt_domain) == 48, "the layout of version 3");

/* ---- the client ---- */

typedef struct itt_calls {
  itt_domain *(*domain_create)(const char *name);
  itt_string *(*string_handle_create)(const char *text);
  void (*task_begin)(const itt_domain *domain, itt_id id, itt_id parent, itt_string *name);
  void (*task_end)(const itt_domain *domain);
  void (*pause)(void), (*resume)(void);
} itt_calls;

static itt_domain *no_domain(const char *name) {
  (void)name;
  return NULL;
}
static itt_string *no_string(const char *text) {
  (void)text;
  return NULL;
}
static void no_begin(const itt_domain *domain, itt_id id, itt_id parent, itt_string *name) {
  (void)domain, (void)id, (void)parent, (void)name;
}
static void no_end(const itt_domain *domain) { (void)domain; }
static void nothing(void) {}
static const itt_calls no_calls = {no_domain, no_string, no_begin, no_end, nothing, nothing};

static const struct {
  const char *name;
  size_t at; /* in itt_calls */
  uint32_t group;
} functions[] = {
    {"__itt_domain_create", offsetof(itt_calls, domain_create), ITT_STRUCTURE},
    {"__itt_string_handle_create", offsetof(itt_calls, string_handle_create), ITT_STRUCTURE},
    {"__itt_task_begin", offsetof(itt_calls, task_begin), ITT_STRUCTURE},
    {"__itt_task_end", offsetof(itt_calls, task_end), ITT_STRUCTURE},
    {"__itt_pause", offsetof(itt_calls, pause), ITT_CONTROL},
    {"__itt_resume", offsetof(itt_calls, resume), ITT_CONTROL},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* The parts of one session's plan. */
typedef struct watch {
  struct watch *next;
  size_t bytes;
  const prof_collector *collector;
  td_observer inner;
  uint32_t steps;
  itt_string *names[];
} watch;

struct prof_collector {
  td_allocator allocator;
  void *library;
  const char *path; /* kept in the block's end */
  size_t bytes;
  itt_global global;
  itt_entry entries[FUNCTIONS + 1];
  itt_calls calls;
  const itt_domain *domain;
  watch *watches;
};

static void **slot_of(prof_collector *c, size_t k) { return (void **)(void *)((char *)&c->calls + functions[k].at); }

static void fill_global(prof_collector *c) {
  static const unsigned char magic[8] = {0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30};
  c->calls = no_calls;
  for (size_t k = 0; k < FUNCTIONS; k++) {
    void **slot = slot_of(c, k);
    c->entries[k] = (itt_entry){functions[k].name, slot, *slot, *slot, functions[k].group};
  }
  c->global = (itt_global){.major = 3,
                           .mutex_ready = 1,
                           .library = c->library,
                           .path = &c->path,
                           .entries = c->entries,
                           .state = ITT_PATH_KNOWN};
  memcpy(c->global.magic, magic, sizeof magic);
}

typedef void (*init_fn)(itt_global *global, int groups);
typedef void (*fini_fn)(itt_global *global);

/* POSIX has functions and data share their pointers. */
static bool find(void *library, const char *name, void *function) {
  void *found = sys_code_find(library, name);
  if (found) memcpy(function, &found, sizeof found);
  return found;
}

/* By the entry of version 2, or else function by function. False: it is no collector. */
static bool start_collector(prof_collector *c) {
  init_fn init;
  if (find(c->library, "__itt_api_init", &init)) {
    init(&c->global, ITT_ALL);
  } else {
    bool any = false;
    for (size_t k = 0; k < FUNCTIONS; k++) any |= find(c->library, functions[k].name, slot_of(c, k));
    if (!any) return false;
  }
  c->global.initialised = 1;
  c->global.state = ITT_INITIALISED;
  c->domain = c->calls.domain_create("Treadle");
  return true;
}

td_status prof_collector_open(const td_allocator *allocator, const char *library, prof_collector **collector,
                              td_error *err) {
  const size_t length = strlen(library) + 1, bytes = sizeof(prof_collector) + length;
  void *code = sys_code_open(library, err);
  if (!code) return TD_NO_RESOURCE;
  prof_collector *c = base_alloc(allocator, bytes);
  if (!c) {
    sys_code_close(code);
    return base_no_memory(err, "a collector");
  }
  *c = (prof_collector){.allocator = *allocator, .library = code, .bytes = bytes, .path = (char *)(c + 1)};
  memcpy(c + 1, library, length);
  fill_global(c);
  if (start_collector(c)) {
    *collector = c;
    return TD_OK;
  }
  prof_collector_close(c);
  return base_fail(err, TD_UNSUPPORTED, library, -1,
                   "is no collector of ITT ranges: it has neither __itt_api_init nor __itt_task_begin");
}

void prof_collector_close(prof_collector *c) {
  if (!c) return;
  fini_fn fini;
  if (c->global.initialised && find(c->library, "__itt_api_fini", &fini)) fini(&c->global);
  sys_code_close(c->library);
  for (watch *w = c->watches, *next; w; w = next) {
    next = w->next;
    base_free(&c->allocator, w, w->bytes);
  }
  const td_allocator allocator = c->allocator;
  base_free(&allocator, c, c->bytes);
}

/* ---- ranges ---- */

static bool wanted(const prof_collector *c) { return c && c->domain && c->domain->flags; }

void prof_range_push(const prof_collector *c, const char *name) {
  const itt_id none = {{0}};
  if (wanted(c)) c->calls.task_begin(c->domain, none, none, c->calls.string_handle_create(name));
}

void prof_range_pop(const prof_collector *c) {
  if (wanted(c)) c->calls.task_end(c->domain);
}

/* A range without length, as PyTorch marks: collectors show both alike. */
void prof_mark(const prof_collector *c, const char *name) {
  prof_range_push(c, name);
  prof_range_pop(c);
}

void prof_pause(const prof_collector *c) { c->calls.pause(); }
void prof_resume(const prof_collector *c) { c->calls.resume(); }

/* ---- ranges of steps ---- */

static void begins(void *user, uint32_t step) {
  const watch *w = user;
  if (w->inner.begin) w->inner.begin(w->inner.user, step);
}

static void ends(void *user, uint32_t step, uint64_t ns) {
  const watch *w = user;
  if (w->inner.end) w->inner.end(w->inner.user, step, ns);
}

static void enters(void *user, uint32_t thread, uint32_t step) {
  const watch *w = user;
  const itt_id none = {{0}};
  if (w->inner.enter) w->inner.enter(w->inner.user, thread, step);
  if (step < w->steps && wanted(w->collector))
    w->collector->calls.task_begin(w->collector->domain, none, none, w->names[step]);
}

static void leaves(void *user, uint32_t thread, uint32_t step, uint64_t begin_ns, uint64_t end_ns) {
  const watch *w = user;
  if (step < w->steps) prof_range_pop(w->collector);
  if (w->inner.part) w->inner.part(w->inner.user, thread, step, begin_ns, end_ns);
}

static void run_ends(void *user, uint64_t begin_ns, uint64_t end_ns) {
  const watch *w = user;
  if (w->inner.run) w->inner.run(w->inner.user, begin_ns, end_ns);
}

td_status prof_watch(prof_collector *c, const char *const *names, uint32_t steps, const td_observer *inner,
                     td_observer *observer, td_error *err) {
  const size_t bytes = sizeof(watch) + steps * sizeof(itt_string *);
  watch *w = base_alloc(&c->allocator, bytes);
  if (!w) return base_no_memory(err, "ranges of steps");
  *w = (watch){.next = c->watches, .bytes = bytes, .collector = c, .inner = *inner, .steps = steps};
  c->watches = w;
  for (uint32_t i = 0; i < steps; i++) w->names[i] = c->calls.string_handle_create(names[i]);
  *observer = (td_observer){.user = w, .begin = begins, .end = ends, .part = leaves, .run = run_ends, .enter = enters};
  return TD_OK;
}
