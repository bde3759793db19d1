/* compare_profiles.c -- `treadle compare-profiles`: what changed from one profile (its JSON form) to another.
 *
 * Times of runs scatter, and other work on the machine moves them all. A row has changed where its mean moved by more
 * than three standard errors and by two per cent, and its shortest time moved the same way by half as much at least:
 * interference makes means longer, shortest times hardly. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/faults.h"

static const double least_errors = 3, least_share = 0.02, shortest_follows = 0.5;

/* Times in microseconds of a run. */
typedef struct side {
  bool there;
  double us, least_us, spread_us;
} side;

typedef struct pair {
  const char *name, *kernel;
  side a, b;
  bool changed;
} pair;

typedef struct profile {
  json_t *root;
  double runs;
} profile;

typedef BASE_VEC(pair) pairs;

/* ---- reading ---- */

static double number_at(const json_t *object, const char *key) {
  return json_number_value(json_object_get(object, key));
}

static td_status open_profile(const char *path, profile *p, td_error *err) {
  json_error_t why;
  p->root = json_load_file(path, 0, &why);
  if (!p->root && why.line < 0)
    return base_fail(err, TD_BAD_FILE, path, -1, "cannot open the file: %s", strerror(errno));
  if (!p->root) return base_fail(err, TD_BAD_FILE, path, why.position, "line %d: %s", why.line, why.text);
  p->runs = number_at(p->root, "runs");
  if (p->runs >= 1 && json_is_array(json_object_get(p->root, "rows"))) return TD_OK;
  return base_fail(err, TD_BAD_FILE, path, -1, "is no profile; `treadle profile MODEL --json` writes one");
}

static side side_of(const json_t *row, double runs) {
  return (side){.there = true,
                .us = 1e-3 * number_at(row, "ns") / runs,
                .least_us = 1e-3 * number_at(row, "least_ns"),
                .spread_us = 1e-3 * number_at(row, "spread_ns")};
}

static const char *text_at(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

/* Rows of one name count in their order. */
static pair *find_open(const pairs *rows, const char *name) {
  for (uint32_t i = 0; i < rows->count; i++)
    if (!rows->at[i].b.there && strcmp(rows->at[i].name, name) == 0) return &rows->at[i];
  return NULL;
}

static td_status match_rows(const profile *a, const profile *b, base_arena *arena, pairs *rows, td_error *err) {
  size_t i;
  const json_t *row;
  json_array_foreach(json_object_get(a->root, "rows"), i, row) {
    pair *p = base_vec_push(arena, rows);
    if (!p) return base_no_memory(err, "rows");
    *p = (pair){.name = text_at(row, "name"), .kernel = text_at(row, "kernel"), .a = side_of(row, a->runs)};
  }
  const uint32_t old = rows->count;
  json_array_foreach(json_object_get(b->root, "rows"), i, row) {
    const pairs before = {.at = rows->at, .count = old};
    pair *p = find_open(&before, text_at(row, "name"));
    if (!p && (p = base_vec_push(arena, rows))) *p = (pair){.name = text_at(row, "name")};
    if (!p) return base_no_memory(err, "rows");
    p->kernel = text_at(row, "kernel");
    p->b = side_of(row, b->runs);
  }
  return TD_OK;
}

/* ---- judging ---- */

static double difference(const pair *p) { return p->b.us - p->a.us; }

static double error_of(const pair *p, double runs_a, double runs_b) {
  return sqrt(p->a.spread_us * p->a.spread_us / runs_a + p->b.spread_us * p->b.spread_us / runs_b);
}

static bool changed(const pair *p, double runs_a, double runs_b) {
  if (!p->a.there || !p->b.there) return true;
  const double d = difference(p), shortest = p->b.least_us - p->a.least_us;
  return fabs(d) > least_errors * error_of(p, runs_a, runs_b) && fabs(d) > least_share * p->a.us && shortest * d > 0 &&
         fabs(shortest) > shortest_follows * fabs(d);
}

static int larger_first(const void *a, const void *b) {
  const pair *x = a, *y = b;
  if (x->changed != y->changed) return y->changed - x->changed;
  return (fabs(difference(x)) < fabs(difference(y))) - (fabs(difference(x)) > fabs(difference(y)));
}

/* How many changed; they stand in front. */
static uint32_t judge(pairs *rows, double runs_a, double runs_b) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < rows->count; i++) count += rows->at[i].changed = changed(&rows->at[i], runs_a, runs_b);
  if (rows->count) qsort(rows->at, rows->count, sizeof(pair), larger_first);
  return count;
}

/* ---- printing ---- */

static double run_us(const profile *p) { return 1e3 * number_at(p->root, "run_ms") / p->runs; }

static void print_time(const side *s) {
  if (s->there) printf("%11.2f ", s->us);
  else printf("%11s ", "-");
}

static void print_text(const profile *a, const profile *b, const pairs *rows, uint32_t count) {
  const double before = run_us(a), after = run_us(b);
  printf("a run: %.2f us before, %.2f us after, %+.1f %%\n", before, after, 100 * (after / before - 1));
  if (count) printf("%11s %11s %11s %7s  %-32s %s\n", "before us", "after us", "change us", "", "kernel", "row");
  for (uint32_t i = 0; i < count; i++) {
    const pair *p = &rows->at[i];
    print_time(&p->a);
    print_time(&p->b);
    printf("%+11.2f ", difference(p));
    if (p->a.there && p->b.there) printf("%+6.1f%%  ", 100 * difference(p) / p->a.us);
    else printf("%7s  ", p->a.there ? "gone" : "new");
    printf("%-32s %s\n", p->kernel, p->name);
  }
  double rest = 0;
  for (uint32_t i = count; i < rows->count; i++) rest += difference(&rows->at[i]);
  printf("%u rows changed no more than they scatter (%+.2f us together)\n", rows->count - count, rest);
}

static td_status print_json(const profile *a, const profile *b, const pairs *rows, uint32_t count, td_error *err) {
  json_t *root = json_object(), *list = json_array();
  app_json_set(root, "before_us", app_json_real(run_us(a)));
  app_json_set(root, "after_us", app_json_real(run_us(b)));
  app_json_set(root, "unchanged", json_integer(rows->count - count));
  for (uint32_t i = 0; i < count; i++) {
    const pair *p = &rows->at[i];
    json_t *row = json_object();
    app_json_set(row, "name", app_json_text(p->name));
    app_json_set(row, "kernel", app_json_text(p->kernel));
    app_json_set(row, "before_us", p->a.there ? app_json_real(p->a.us) : json_null());
    app_json_set(row, "after_us", p->b.there ? app_json_real(p->b.us) : json_null());
    app_json_set(list, NULL, row);
  }
  app_json_set(root, "changed", list);
  return app_print_json(root, APP_JSON, err);
}

static td_status compare(cli_args *args, profile *a, profile *b, td_error *err) {
  pairs rows = {0};
  TRY(open_profile(args->operands[0], a, err));
  TRY(open_profile(args->operands[1], b, err));
  TRY(match_rows(a, b, args->arena, &rows, err));
  const uint32_t count = judge(&rows, a->runs, b->runs);
  if (cli_flag(args, "json")) return print_json(a, b, &rows, count, err);
  print_text(a, b, &rows, count);
  return TD_OK;
}

td_status cli_run_compare_profiles(cli_args *args, td_error *err) {
  profile a = {0}, b = {0};
  const td_status status = compare(args, &a, &b, err);
  json_decref(a.root);
  json_decref(b.root);
  return status;
}
