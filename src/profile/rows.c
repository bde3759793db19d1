/* rows.c -- steps grouped into rows by what they have in common, and the order of the rows. */
#include <stdlib.h>
#include <string.h>

#include "profile/profile_priv.h"

double prof_step_bytes(const td_step *step) { return step->const_bytes + step->read_bytes + step->write_bytes; }

double prof_step_limit_ms(const prof_source *source, uint32_t step) {
  if (!source->limits) return 0;
  const td_step *s = &source->steps[step];
  const td_work work = {s->flops, s->const_bytes, s->read_bytes, s->write_bytes, source->footprint, s->multiplied};
  return prof_limit_ms(source->limits, &work);
}

/* Is record `i` the first of its thread that has something? */
static bool first_of_thread(const prof_recorder *r, uint32_t i) {
  const uint32_t thread = prof_thread_of(r, i), sharing = r->options.threads - r->options.crew;
  return r->threads[i].written > 0 && (thread == i || thread >= sharing || !r->threads[thread].written);
}

td_profile_totals prof_totals(const prof_source *source) {
  const prof_recorder *r = source->recorder;
  td_profile_totals t = {.size = sizeof t, .runs = r->runs, .run_ms = (double)r->run_ns * 1e-6};
  for (uint32_t i = 0; i < r->options.steps; i++) {
    const td_profile_step step = prof_step(r, i);
    const double calls = (double)step.calls;
    t.step_ms += (double)r->totals[i].caller_ns * 1e-6;
    t.self_ms += (double)step.self_ns * 1e-6;
    t.busy_ms += (double)step.busy_ns * 1e-6;
    t.flops += source->steps[i].flops * calls;
    t.bytes += prof_step_bytes(&source->steps[i]) * calls;
    if (calls > 0) t.limit_ms += prof_step_limit_ms(source, i) * calls;
  }
  for (uint32_t i = 0; i < r->options.threads; i++) {
    const prof_thread *thread = &r->threads[i];
    t.threads += first_of_thread(r, i);
    t.records += thread->written;
    t.lost += prof_first_record(r, thread);
  }
  prof_add_rest(r, &t);
  return t;
}

/* ---- names ---- */

base_str prof_node_name(const td_step *step) {
  const base_str name = base_node_name(step->name ? step->name : "");
  return name.length ? name : BASE_STR("(plan)");
}

size_t prof_origin_count(const prof_source *source, uint32_t step) {
  return source->origin ? source->steps[step].origins : 0;
}

base_str prof_origin(const prof_source *source, uint32_t step, size_t origin) {
  if (origin >= prof_origin_count(source, step)) return prof_node_name(&source->steps[step]);
  return base_node_name(source->origin(source->user, step, origin));
}

static base_str or_control(const char *name) { return base_str_of(name && *name ? name : "(control)"); }

static base_str node_of(const td_step *step, base_str origin) {
  (void)origin;
  return prof_node_name(step);
}
static base_str op_of(const td_step *step, base_str origin) {
  (void)origin;
  return or_control(step->op);
}
static base_str kernel_of(const td_step *step, base_str origin) {
  (void)origin;
  return or_control(step->kernel);
}
static base_str class_of(const td_step *step, base_str origin) {
  (void)origin;
  return base_str_of(prof_class_of(step->op));
}
static base_str origin_of(const td_step *step, base_str origin) {
  (void)step;
  return origin;
}

/* "/layer1/0/conv1/Conv" belongs to the module layer1/0/conv1; a name without slashes is a module's itself. */
static base_str module_of(const td_step *step, base_str name) {
  (void)step;
  for (size_t i = name.length; i-- > 0;)
    if (name.at[i] == '/') {
      name.length = i;
      break;
    }
  if (name.length && name.at[0] == '/') name.at++, name.length--;
  return name.length ? name : BASE_STR("(model)");
}

/* The first `depth` parts of a module's path: of layer1/layer1.0/conv1 at slashes, of encoder.layer.0 at dots. */
static base_str cut_path(base_str path, uint32_t depth) {
  const char between = memchr(path.at, '/', path.length) ? '/' : '.';
  for (size_t i = 0; i < path.length; i++)
    if (path.at[i] == between && --depth == 0) return (base_str){path.at, i};
  return path;
}

typedef struct grouping {
  const char *name;
  base_str (*key)(const td_step *step, base_str origin);
  bool separate; /* steps of one name stay rows of their own */
  bool dealt;    /* the time of a step is dealt out evenly among its origins */
  bool path;     /* names are paths, which view.depth can cut */
} grouping;
static const grouping groupings[] = {
    {"node", node_of, true, false, false},      {"op", op_of, false, false, false},
    {"kernel", kernel_of, false, false, false}, {"class", class_of, false, false, false},
    {"module", module_of, false, true, true},   {"origin", origin_of, false, true, false}};

/* ---- orders: the larger stands first ---- */

static double by_time(const prof_row *r) { return (double)r->self_ns; }
static double by_mean(const prof_row *r) { return r->calls ? (double)r->ns / (double)r->calls : 0; }
static double by_calls(const prof_row *r) { return (double)r->calls; }
static double by_flops(const prof_row *r) { return r->flops; }
static double by_bytes(const prof_row *r) { return r->bytes; }
static double by_memory(const prof_row *r) { return (double)r->memory; }
/* What is lost against the limit. */
static double by_limit(const prof_row *r) { return (double)r->ns * 1e-6 - r->limit_ms; }

typedef struct order {
  const char *name;
  double (*value)(const prof_row *row); /* NULL: as the plan runs */
} order;
static const order orders[] = {{"time", by_time},   {"mean", by_mean},   {"calls", by_calls},   {"flops", by_flops},
                               {"bytes", by_bytes}, {"limit", by_limit}, {"memory", by_memory}, {"order", NULL}};

typedef struct keyed {
  double value;
  prof_row row;
} keyed;

static int larger_first(const void *a, const void *b) {
  const keyed *x = a, *y = b;
  if (x->value != y->value) return (x->value < y->value) - (x->value > y->value);
  return (x->row.step > y->row.step) - (x->row.step < y->row.step);
}

static bool sort_rows(prof_rows *rows, double (*value)(const prof_row *)) {
  keyed *room = base_new(rows->arena, keyed, rows->count + (size_t)1);
  if (!room) return false;
  for (uint32_t i = 0; i < rows->count; i++) room[i] = (keyed){value(&rows->at[i]), rows->at[i]};
  qsort(room, rows->count, sizeof *room, larger_first);
  for (uint32_t i = 0; i < rows->count; i++) rows->at[i] = room[i].row;
  return true;
}

/* ---- rows ---- */

/* Part `i` of `n` of a whole number; all of them together are it. */
static uint64_t part_of(uint64_t whole, size_t i, size_t n) {
  const uint64_t each = whole / n;
  return i + 1 < n ? each : whole - each * (n - 1);
}

/* Part `i` of `n` of what the step did. */
static void add_step(const prof_source *source, uint32_t step, size_t i, size_t n, prof_row *row) {
  const td_profile_step recorded = prof_step(source->recorder, step);
  const td_step *s = &source->steps[step];
  const double calls = (double)recorded.calls / (double)n;
  if (!row->first) row->first = s;
  if (!row->steps || row->last != step) row->steps++, row->calls += recorded.calls;
  row->last = step;
  row->ns += part_of(recorded.ns, i, n);
  row->self_ns += part_of(recorded.self_ns, i, n);
  row->busy_ns += part_of(recorded.busy_ns, i, n);
  row->least_ns += part_of(recorded.least_ns, i, n);
  row->variance_ns2 += recorded.spread_ns * recorded.spread_ns / ((double)n * (double)n);
  row->flops += s->flops * calls;
  row->bytes += prof_step_bytes(s) * calls;
  row->limit_ms += prof_step_limit_ms(source, step) * calls;
}

/* NULL: out of memory. */
static prof_row *row_of(prof_rows *rows, const grouping *g, base_str name, uint32_t step) {
  const uint32_t *known = g->separate ? NULL : base_map_get(&rows->by_name, name);
  if (known) return &rows->at[*known];
  if (!g->separate && !base_map_put(&rows->by_name, rows->arena, name, rows->count, NULL)) return NULL;
  prof_row *row = &rows->at[rows->count++];
  *row = (prof_row){.name = name.at, .name_length = name.length, .step = step};
  return row;
}

static bool add_steps(const prof_source *source, const grouping *g, uint32_t depth, prof_rows *rows) {
  const uint64_t *live = prof_live_bytes(source, rows->arena);
  for (uint32_t i = 0; live && i < source->recorder->options.steps; i++) {
    const size_t origins = prof_origin_count(source, i), parts = g->dealt && origins ? origins : 1;
    for (size_t k = 0; prof_step_ran(source->recorder, i) && k < parts; k++) {
      base_str name = g->key(&source->steps[i], prof_origin(source, i, k));
      if (depth && g->path) name = cut_path(name, depth);
      prof_row *row = row_of(rows, g, name, i);
      if (!row) return false;
      add_step(source, i, k, parts, row);
      if (live[i] > row->memory) row->memory = live[i];
    }
  }
  return live != NULL;
}

static const grouping *find_grouping(const char *name) {
  for (size_t i = 0; i < sizeof groupings / sizeof *groupings; i++)
    if (strcmp(groupings[i].name, name ? name : "node") == 0) return &groupings[i];
  return NULL;
}

static const order *find_order(const char *name) {
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
    if (strcmp(orders[i].name, name ? name : "time") == 0) return &orders[i];
  return NULL;
}

/* Room for the most rows that there can be. */
static td_status open_rows(const prof_source *source, const td_allocator *allocator, prof_rows *rows, td_error *err) {
  size_t most = 1;
  for (uint32_t i = 0; i < source->recorder->options.steps; i++) most += 1 + prof_origin_count(source, i);
  *rows = (prof_rows){.arena = base_arena_new(allocator)};
  if (rows->arena) rows->at = base_new(rows->arena, prof_row, most);
  return rows->at ? TD_OK : base_no_memory(err, "the rows of a profile");
}

td_status prof_rows_make(const prof_source *source, const td_profile_view *view, const td_allocator *allocator,
                         prof_rows *rows, td_error *err) {
  const grouping *g = find_grouping(view->group);
  const order *o = find_order(view->sort);
  if (!g)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "rows cannot be '%s': there are node, op, kernel, class, module and origin", view->group);
  if (!o)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "rows have no order '%s': there are time, mean, calls, flops, bytes, limit, memory and order",
                     view->sort);
  td_status status = open_rows(source, allocator, rows, err);
  if (status == TD_OK && !add_steps(source, g, view->depth, rows))
    status = base_no_memory(err, "the rows of a profile");
  if (status == TD_OK && o->value && !sort_rows(rows, o->value)) status = base_no_memory(err, "the rows of a profile");
  if (status != TD_OK) prof_rows_free(rows);
  return status;
}

void prof_rows_free(prof_rows *rows) { base_arena_free(rows->arena); }
