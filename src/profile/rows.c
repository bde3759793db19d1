/* rows.c -- steps grouped into rows by what they have in common, and the order of the rows. */
#include <stdlib.h>
#include <string.h>

#include "profile/profile_priv.h"

double prof_step_bytes(const td_step *step) { return step->const_bytes + step->read_bytes + step->write_bytes; }

double prof_step_limit_ms(const prof_source *source, uint32_t step) {
  if (!source->limits) return 0;
  const td_step *s = &source->steps[step];
  const td_work work = {s->flops, s->const_bytes, s->read_bytes, s->write_bytes, source->footprint};
  return prof_limit_ms(source->limits, &work);
}

td_profile_totals prof_totals(const prof_source *source) {
  const prof_recorder *r = source->recorder;
  td_profile_totals t = {.size = sizeof t, .runs = r->runs, .run_ms = (double)r->run_ns * 1e-6};
  for (uint32_t i = 0; i < r->options.steps; i++) {
    const td_profile_step step = prof_step(r, i);
    const double calls = (double)step.calls;
    t.step_ms += (double)step.ns * 1e-6;
    t.self_ms += (double)step.self_ns * 1e-6;
    t.busy_ms += (double)step.busy_ns * 1e-6;
    t.flops += source->steps[i].flops * calls;
    t.bytes += prof_step_bytes(&source->steps[i]) * calls;
    if (calls > 0) t.limit_ms += prof_step_limit_ms(source, i) * calls;
  }
  for (uint32_t i = 0; i < r->options.threads; i++) {
    const prof_thread *thread = &r->threads[i];
    t.threads += thread->written > 0;
    t.records += thread->written;
    t.lost += prof_first_record(r, thread);
  }
  prof_add_rest(r, &t);
  return t;
}

/* ---- names ---- */

base_str prof_node_name(const td_step *step) { return base_node_name(step->name ? step->name : ""); }

static base_str op_name(const td_step *step) { return base_str_of(step->op && *step->op ? step->op : "(control)"); }
static base_str kernel_name(const td_step *step) {
  return base_str_of(step->kernel && *step->kernel ? step->kernel : "(control)");
}

/* "/layer1/0/conv1/Conv" belongs to the module layer1/0/conv1; a name without slashes is a module's itself. */
static base_str module_name(const td_step *step) {
  base_str name = prof_node_name(step);
  for (size_t i = name.length; i-- > 0;)
    if (name.at[i] == '/') {
      name.length = i;
      break;
    }
  if (name.length && name.at[0] == '/') name.at++, name.length--;
  return name.length ? name : BASE_STR("(model)");
}

typedef struct grouping {
  const char *name;
  base_str (*key)(const td_step *step);
  bool apart; /* steps of one name stay rows of their own */
} grouping;
static const grouping groupings[] = {{"node", prof_node_name, true},
                                     {"op", op_name, false},
                                     {"kernel", kernel_name, false},
                                     {"module", module_name, false}};

/* ---- orders: the larger stands first ---- */

static double by_time(const prof_row *r) { return (double)r->ns; }
static double by_mean(const prof_row *r) { return r->calls ? (double)r->ns / (double)r->calls : 0; }
static double by_calls(const prof_row *r) { return (double)r->calls; }
static double by_flops(const prof_row *r) { return r->flops; }
static double by_bytes(const prof_row *r) { return r->bytes; }
/* What is lost against the limit. */
static double by_limit(const prof_row *r) { return (double)r->ns * 1e-6 - r->limit_ms; }

typedef struct order {
  const char *name;
  double (*value)(const prof_row *row); /* NULL: as the plan runs */
} order;
static const order orders[] = {{"time", by_time},   {"mean", by_mean},   {"calls", by_calls}, {"flops", by_flops},
                               {"bytes", by_bytes}, {"limit", by_limit}, {"order", NULL}};

typedef struct keyed {
  double value;
  prof_row row;
} keyed;

static int larger_first(const void *a, const void *b) {
  const keyed *x = a, *y = b;
  if (x->value != y->value) return (x->value < y->value) - (x->value > y->value);
  return (x->row.first > y->row.first) - (x->row.first < y->row.first);
}

static void sort_rows(prof_row *rows, keyed *room, uint32_t count, double (*value)(const prof_row *)) {
  for (uint32_t i = 0; i < count; i++) room[i] = (keyed){value(&rows[i]), rows[i]};
  qsort(room, count, sizeof *room, larger_first);
  for (uint32_t i = 0; i < count; i++) rows[i] = room[i].row;
}

/* ---- rows ---- */

static void add_step(const prof_source *source, uint32_t step, prof_row *row) {
  const td_profile_step recorded = prof_step(source->recorder, step);
  const td_step *s = &source->steps[step];
  const double calls = (double)recorded.calls;
  if (!row->first) row->first = s;
  row->steps++;
  row->calls += recorded.calls;
  row->ns += recorded.ns;
  row->self_ns += recorded.self_ns;
  row->busy_ns += recorded.busy_ns;
  row->flops += s->flops * calls;
  row->bytes += prof_step_bytes(s) * calls;
  row->limit_ms += prof_step_limit_ms(source, step) * calls;
}

static prof_row *row_of(prof_rows *rows, const grouping *g, base_str name) {
  for (uint32_t i = 0; !g->apart && i < rows->count; i++)
    if (base_str_equal((base_str){rows->at[i].name, rows->at[i].name_length}, name)) return &rows->at[i];
  prof_row *row = &rows->at[rows->count++];
  *row = (prof_row){.name = name.at, .name_length = name.length};
  return row;
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

td_status prof_rows_make(const prof_source *source, const td_profile_view *view, const td_allocator *allocator,
                         prof_rows *rows, td_error *err) {
  const grouping *g = find_grouping(view->group);
  const order *o = find_order(view->sort);
  if (!g)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "rows cannot be '%s': there are node, op, kernel and module",
                     view->group);
  if (!o)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "rows have no order '%s': there are time, mean, calls, flops, bytes, limit and order", view->sort);
  const uint32_t steps = source->recorder->options.steps;
  const size_t each = sizeof(prof_row) + sizeof(keyed);
  *rows = (prof_rows){.bytes_allocated = (steps + (size_t)1) * each};
  rows->at = base_alloc(allocator, rows->bytes_allocated);
  if (!rows->at) return base_no_memory(err, "the rows of a profile");
  for (uint32_t i = 0; i < steps; i++)
    if (prof_step_ran(source->recorder, i)) add_step(source, i, row_of(rows, g, g->key(&source->steps[i])));
  if (o->value) sort_rows(rows->at, (keyed *)(void *)(rows->at + steps + 1), rows->count, o->value);
  return TD_OK;
}

void prof_rows_free(const td_allocator *allocator, prof_rows *rows) {
  base_free(allocator, rows->at, rows->bytes_allocated);
}
