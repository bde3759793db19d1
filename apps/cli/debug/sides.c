/* sides.c -- `treadle profile --compare-backend`: the user's nodes one by one against the kernels made of them.
 *
 * A kernel's time is told back to the nodes that it stands for, in the ratio of what each of them took alone, and so to
 * their classes of work. Nodes that took no time before (folded, or no step of their own) leave it to the others; where
 * none is known, the kernel counts as its own class. */
#include <treadle/experimental.h>

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "common/measure.h"
#include "cli/engine.h"
#include "sides.h"

enum { MOST_CLASSES = 16, LEAST_RUNS = 3 };

/* A step that ran. */
typedef struct ran {
  td_step step;
  const char *class;
  uint32_t index;
  double us; /* of a run, on the caller's thread */
} ran;

typedef struct side {
  td_model *model;
  td_session *session;
  td_profile *profile;
  const char *backend;
  double run_us, between_us; /* of a run; of it, outside of steps */
  ran *steps;
  uint32_t count;
} side;

typedef struct class_row {
  const char *name;
  double us[2];
  uint32_t steps[2];
} class_row;

typedef struct node_times {
  double by_class[MOST_CLASSES]; /* in us of a run before; numbers of sides.classes */
} node_times;

typedef struct sides {
  cli_args *args;
  side at[2];
  base_map nodes; /* name of a node to a number below */
  node_times *node_us;
  class_row classes[MOST_CLASSES];
  uint32_t class_count;
} sides;

/* ---- recording ---- */

static td_status record(side *s, double min_ms, td_error *err) {
  const td_profile_options options = {.size = sizeof options, .records = 1};
  TRY(td_session_run(s->session, err));
  TRY(td_profile_new(s->session, &options, &s->profile, err));
  TRY(td_session_run(s->session, err));
  TRY(td_profile_clear(s->profile, err));
  const double start = app_now_ms();
  for (int i = 0; i < LEAST_RUNS || app_now_ms() - start < min_ms; i++) TRY(td_session_run(s->session, err));
  return TD_OK;
}

static td_status read_steps(side *s, base_arena *arena, td_error *err) {
  td_profile_totals totals = {.size = sizeof totals};
  app_figures figures = {0};
  TRY(td_profile_get_totals(s->profile, &totals, err));
  TRY(app_read_figures(s->model, s->session, &figures, err));
  const double runs = (double)totals.runs;
  s->backend = figures.model.backend;
  s->run_us = 1e3 * totals.run_ms / runs;
  s->between_us = 1e3 * (totals.wait_ms + totals.between_ms) / runs;
  s->steps = base_new(arena, ran, figures.model.steps + (size_t)1);
  if (!s->steps) return base_no_memory(err, "steps");
  for (uint32_t i = 0; i < figures.model.steps; i++) {
    td_profile_step p = {.size = sizeof p};
    ran *r = &s->steps[s->count];
    *r = (ran){.step = {.size = sizeof r->step}, .index = i};
    TRY(td_profile_get_step(s->profile, i, &p, err));
    TRY(td_session_get_step(s->session, i, &r->step, err));
    r->us = 1e-3 * (double)p.self_ns / runs;
    r->class = td_class_of(r->step.op);
    const double bytes = r->step.const_bytes + r->step.read_bytes + r->step.write_bytes;
    s->count += p.self_ns > 0 && bytes > 0; /* views and control do no work */
    if (bytes <= 0) s->between_us += r->us;
  }
  return TD_OK;
}

static td_status open_side(sides *c, side *s, const char *backend, td_error *err) {
  td_load_options options;
  app_feed feed;
  double min_s = 1;
  TRY(cli_real(c->args, "min-time", 0, 1e6, &min_s, err));
  TRY(cli_load_options(c->args, &options, err));
  options.backend = backend;
  TRY(td_model_load(c->args->operands[0], &options, &s->model, err));
  TRY(cli_feed_make(c->args, s->model, false, &feed, err));
  TRY(cli_open_session(c->args, s->model, &s->session, err));
  TRY(app_feed_bind(&feed, s->session, c->args->arena, err));
  TRY(record(s, 1e3 * min_s, err));
  return read_steps(s, c->args->arena, err);
}

static void close_side(side *s) {
  td_profile_free(s->profile);
  td_session_free(s->session);
  td_model_free(s->model);
}

/* ---- telling time back ---- */

static base_str origin_of(const side *s, const ran *r, size_t i) {
  const char *name = td_session_step_origin(s->session, r->index, i);
  return base_node_name(name ? name : r->step.name);
}

static size_t origins_of(const ran *r) { return r->step.origins ? r->step.origins : 1; }

static uint32_t class_at(sides *c, const char *name) {
  for (uint32_t i = 0; i < c->class_count; i++)
    if (strcmp(c->classes[i].name, name) == 0) return i;
  const uint32_t at = c->class_count;
  c->class_count += at + 1 < MOST_CLASSES;
  c->classes[at].name = name;
  return at;
}

/* What each node took before. Nodes may share a name, as a layer and its activation do: then by class. */
static td_status learn_nodes(sides *c, td_error *err) {
  const side *s = &c->at[0];
  size_t most = 1;
  for (uint32_t i = 0; i < s->count; i++) most += origins_of(&s->steps[i]);
  c->node_us = base_new(c->args->arena, node_times, most);
  if (!c->node_us) return base_no_memory(err, "nodes");
  for (uint32_t i = 0; i < s->count; i++) {
    const ran *r = &s->steps[i];
    for (size_t k = 0; k < origins_of(r); k++) {
      const base_str name = origin_of(s, r, k);
      const uint32_t *known = base_map_get(&c->nodes, name);
      const uint32_t at = known ? *known : c->nodes.count;
      if (!known && !base_map_put(&c->nodes, c->args->arena, name, at, NULL)) return base_no_memory(err, "nodes");
      c->node_us[at].by_class[class_at(c, r->class)] += r->us / (double)origins_of(r);
    }
  }
  return TD_OK;
}

/* Adds what the nodes of a kernel took before to us[], by class; the sum. */
static double known_us(const sides *c, const ran *r, double *us) {
  double sum = 0;
  for (size_t i = 0; i < origins_of(r); i++) {
    const uint32_t *at = base_map_get(&c->nodes, origin_of(&c->at[1], r, i));
    for (uint32_t k = 0; at && k < c->class_count; k++)
      us[k] += c->node_us[*at].by_class[k], sum += c->node_us[*at].by_class[k];
  }
  return sum;
}

/* A kernel's time to the classes of its nodes; the kernel itself counts in the class that took longest. */
static void deal_out(sides *c, const ran *r) {
  double us[MOST_CLASSES] = {0}, sum = known_us(c, r, us);
  if (sum <= 0) us[class_at(c, r->class)] = sum = 1;
  uint32_t most = 0;
  for (uint32_t k = 0; k < c->class_count; k++) {
    c->classes[k].us[1] += r->us * us[k] / sum;
    if (us[k] > us[most]) most = k;
  }
  c->classes[most].steps[1]++;
}

static void sum_up(sides *c) {
  for (uint32_t i = 0; i < c->at[0].count; i++) {
    class_row *row = &c->classes[class_at(c, c->at[0].steps[i].class)];
    row->us[0] += c->at[0].steps[i].us;
    row->steps[0]++;
  }
  for (uint32_t i = 0; i < c->at[1].count; i++) deal_out(c, &c->at[1].steps[i]);
}

/* ---- printing ---- */

static int slowest_first(const void *a, const void *b) {
  const class_row *x = a, *y = b;
  return (x->us[0] < y->us[0]) - (x->us[0] > y->us[0]);
}

static void print_line(const char *name, double before, double after, const uint32_t *steps) {
  printf("%-16s", name);
  if (steps) printf(" %6u %12.3f %8u %12.3f", steps[0], before * 1e-3, steps[1], after * 1e-3);
  else printf(" %6s %12.3f %8s %12.3f", "", before * 1e-3, "", after * 1e-3);
  if (before > 0 && after > 0) printf(" %8.2fx", before / after);
  printf("\n");
}

static const ran *largest_group(const side *s) {
  const ran *most = s->steps;
  for (uint32_t i = 0; i < s->count; i++)
    if (origins_of(&s->steps[i]) > origins_of(most)) most = &s->steps[i];
  return most;
}

static void print_text(const sides *c) {
  const side *a = &c->at[0], *b = &c->at[1];
  const uint32_t steps[2] = {a->count, b->count};
  printf("%s%-16s %6s %12s %8s %12s %9s%s\n", app_colour_code(stdout, APP_BOLD), "class of work", "nodes", "ms",
         "kernels", "ms", "speed-up", app_colour_code(stdout, APP_PLAIN));
  for (uint32_t i = 0; i < c->class_count; i++)
    print_line(c->classes[i].name, c->classes[i].us[0], c->classes[i].us[1], c->classes[i].steps);
  print_line("between steps", a->between_us, b->between_us, NULL);
  print_line("a run", a->run_us, b->run_us, steps);
  if (!b->count) return;
  const ran *most = largest_group(b);
  printf("%s ran %u nodes one by one, %s %u kernels; %s stands for the most: %zu nodes\n", a->backend, a->count,
         b->backend, b->count, most->step.kernel, origins_of(most));
}

static td_status print_json(const sides *c, td_error *err) {
  json_t *root = json_object(), *rows = json_array();
  const char *const keys[2][4] = {{"before", "nodes", "before_ms", "before_run_ms"},
                                  {"after", "kernels", "after_ms", "after_run_ms"}};
  for (int k = 0; k < 2; k++) {
    app_json_set(root, keys[k][0], app_json_text(c->at[k].backend));
    app_json_set(root, keys[k][1], json_integer(c->at[k].count));
    app_json_set(root, keys[k][3], app_json_real(1e-3 * c->at[k].run_us));
  }
  for (uint32_t i = 0; i < c->class_count; i++) {
    json_t *row = json_object();
    app_json_set(row, "class", app_json_text(c->classes[i].name));
    for (int k = 0; k < 2; k++) {
      app_json_set(row, keys[k][1], json_integer(c->classes[i].steps[k]));
      app_json_set(row, keys[k][2], app_json_real(1e-3 * c->classes[i].us[k]));
    }
    app_json_set(rows, NULL, row);
  }
  app_json_set(root, "classes", rows);
  return app_print_json(root, APP_JSON, err);
}

static td_status compare(sides *c, const char *before, td_error *err) {
  TRY(open_side(c, &c->at[0], before, err));
  TRY(open_side(c, &c->at[1], cli_value(c->args, "backend"), err));
  TRY(learn_nodes(c, err));
  sum_up(c);
  qsort(c->classes, c->class_count, sizeof *c->classes, slowest_first);
  if (cli_flag(c->args, "json")) return print_json(c, err);
  print_text(c);
  return TD_OK;
}

td_status cli_compare_backends(cli_args *args, const char *before, td_error *err) {
  sides c = {.args = args};
  const td_status status = compare(&c, before, err);
  close_side(&c.at[0]);
  close_side(&c.at[1]);
  return status;
}
