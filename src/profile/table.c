/* table.c -- rows for people. All times are of one run: sums divided by the number of runs. Columns add up to the run:
 * below the rows that are shown stand the rest of them, and what the caller's thread did besides. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "profile/profile_priv.h"

enum { MOST_NODES = 12, MOST_NAME = 400 };

typedef struct table {
  const prof_source *source;
  const td_profile_view *view;
  prof_out *out;
  td_profile_totals totals;
  uint32_t chosen; /* a bit per column */
  int widths[PROF_COLUMNS];
  int before_names;
} table;

static bool has(const table *t, int column) { return t->chosen >> column & 1; }

/* ---- cells ---- */

static void put_scaled(prof_out *out, int width, double value) {
  static const char *const units[] = {"", "k", "M", "G", "T", "P"};
  size_t unit = 0;
  char text[32];
  double scaled = value;
  if (value >= 1e4)
    for (; scaled >= 999.5 && unit + 1 < sizeof units / sizeof *units; unit++) scaled *= 1e-3;
  snprintf(text, sizeof text, unit ? "%.3g%s" : "%.4g%s", scaled, units[unit]);
  prof_print(out, "%*s ", width, text);
}

/* NAN: blank. */
static void put_number(const table *t, int column, double value) {
  const prof_column *c = &prof_columns[column];
  if (isnan(value)) prof_print(t->out, "%*s ", c->width, "");
  else if (c->decimals == PROF_SCALED) put_scaled(t->out, c->width, value);
  else if (c->decimals == PROF_PERCENT) prof_print(t->out, "%*.1f%% ", c->width - 1, value);
  else prof_print(t->out, "%*.*f ", c->width, c->decimals, value);
}

static void put_numbers(const table *t, const prof_row *row) {
  const bool limited = t->totals.limit_ms > 0;
  for (int i = 0; i < PROF_COLUMNS; i++) {
    const prof_column *c = &prof_columns[i];
    if (!has(t, i) || !c->value) continue;
    if (!limited && (i == PROF_COLUMN_LIMIT || i == PROF_COLUMN_REACH)) prof_print(t->out, "%*s ", c->width, "-");
    else put_number(t, i, c->value(row, &t->totals));
  }
  prof_put(t->out, " ");
}

/* Time that is of no step. NAN: blank. */
static void put_time(const table *t, double ms, double total_ms, double of_ms, const char *what) {
  const double runs = (double)t->totals.runs;
  for (int i = 0; i < PROF_COLUMNS; i++) {
    if (!has(t, i) || !prof_columns[i].value) continue;
    put_number(t, i,
               i == PROF_COLUMN_SELF                 ? 1e3 * ms / runs
               : i == PROF_COLUMN_TOTAL              ? 1e3 * total_ms / runs
               : i == PROF_COLUMN_SHARE && of_ms > 0 ? 100 * ms / of_ms
                                                     : NAN);
  }
  prof_print(t->out, " %s\n", what);
}

/* ---- rows ---- */

/* At most `width` characters, the last of them dots where it was cut. */
static void put_text(prof_out *out, int width, const char *text) {
  const int length = (int)strlen(text);
  if (length <= width) prof_print(out, "%-*s ", width, text);
  else prof_print(out, "%.*s.. ", width - 2, text);
}

/* How many nodes a row names: one, but those of a fused kernel, where rows are steps. */
static size_t nodes_of(const table *t, const prof_row *row) {
  if (t->view->group && strcmp(t->view->group, "node") != 0) return 0;
  const size_t nodes = prof_origin_count(t->source, row->step);
  return nodes < MOST_NODES ? nodes : MOST_NODES;
}

/* Where the nodes of one name end that begin at node `i` of the row's. */
static size_t end_of_name(const table *t, const prof_row *row, size_t i, size_t nodes) {
  const base_str name = prof_origin(t->source, row->step, i);
  while (++i < nodes && base_str_equal(name, prof_origin(t->source, row->step, i))) continue;
  return i;
}

static void put_name(const table *t, base_str name, size_t count, const char *what) {
  prof_print(t->out, "%.*s", (int)(name.length < MOST_NAME ? name.length : MOST_NAME), name.at);
  if (count > 1) prof_print(t->out, "  (%zu %s)", count, what);
  prof_put(t->out, "\n");
}

static void put_row(const table *t, const prof_row *row) {
  const size_t nodes = nodes_of(t, row);
  size_t i = nodes ? end_of_name(t, row, 0, nodes) : 0;
  put_numbers(t, row);
  for (int k = 0; k < PROF_COLUMNS; k++)
    if (has(t, k) && prof_columns[k].text) put_text(t->out, t->widths[k], prof_columns[k].text(row));
  if (row->steps == 1 && row->first->variant && *row->first->variant) prof_print(t->out, "[%s] ", row->first->variant);
  put_name(t, (base_str){row->name, row->name_length}, nodes ? i : row->steps, nodes ? "nodes" : "steps");
  while (i < nodes) {
    const size_t end = end_of_name(t, row, i, nodes);
    prof_print(t->out, "%*s+ ", t->before_names, "");
    put_name(t, prof_origin(t->source, row->step, i), end - i, "nodes");
    i = end;
  }
}

static void put_head(const table *t) {
  for (int i = 0; i < PROF_COLUMNS; i++)
    if (has(t, i) && prof_columns[i].value) prof_print(t->out, "%*s ", prof_columns[i].width, prof_columns[i].head);
  prof_put(t->out, " ");
  for (int i = 0; i < PROF_COLUMNS; i++)
    if (has(t, i) && prof_columns[i].text) prof_print(t->out, "%-*s ", t->widths[i], prof_columns[i].head);
  prof_print(t->out, "%s\n", t->view->group ? t->view->group : "node");
}

/* Columns of text are as wide as the longest of the rows that are shown. */
static void measure(table *t, const prof_row *rows, uint32_t shown) {
  t->before_names = 1;
  for (int i = 0; i < PROF_COLUMNS; i++) {
    const prof_column *c = &prof_columns[i];
    size_t width = c->text ? strlen(c->head) : (size_t)c->width;
    for (uint32_t k = 0; c->text && k < shown; k++)
      if (strlen(c->text(&rows[k])) > width) width = strlen(c->text(&rows[k]));
    t->widths[i] = width < (size_t)c->width ? (int)width : c->width;
    if (has(t, i)) t->before_names += t->widths[i] + 1;
  }
}

/* ---- what adds up to the run ---- */

static void add_row(prof_row *sum, const prof_row *row) {
  sum->steps += row->steps;
  sum->calls += row->calls;
  sum->ns += row->ns;
  sum->self_ns += row->self_ns;
  sum->busy_ns += row->busy_ns;
  sum->flops += row->flops;
  sum->bytes += row->bytes;
  sum->limit_ms += row->limit_ms;
  if (row->memory > sum->memory) sum->memory = row->memory;
}

/* Where all threads' time went, not the caller's alone. */
static void put_threads(const table *t) {
  const td_profile_totals *s = &t->totals;
  const double all_ms = s->run_ms * s->threads;
  char text[64];
  snprintf(text, sizeof text, "of %u threads, of which", s->threads);
  put_time(t, all_ms, NAN, all_ms, text);
  put_time(t, s->busy_ms, NAN, all_ms, "computing");
  put_time(t, s->single_ms, NAN, all_ms, "one thread has work, the others spin: steps too small to share");
  put_time(t, s->late_ms, NAN, all_ms, "late to a shared step: wake-up");
  put_time(t, s->early_ms, NAN, all_ms, "through with a shared step before others: imbalance");
  put_time(t, all_ms - s->busy_ms - s->single_ms - s->late_ms - s->early_ms, NAN, all_ms, "between steps");
}

static void put_rest(const table *t, const prof_row *hidden, uint32_t hidden_count, const prof_row *all) {
  const td_profile_totals *s = &t->totals;
  prof_row run = *all;
  if (hidden_count) {
    put_numbers(t, hidden);
    prof_print(t->out, "in %u more rows\n", hidden_count);
  }
  if (s->threads > 1) put_time(t, s->wait_ms, NAN, s->run_ms, "waiting for other threads at the end of steps");
  put_time(t, s->between_ms, s->between_ms, s->run_ms, "between steps: the walk of the plan, hand-over, interruptions");
  run.ns = run.self_ns = (uint64_t)(1e6 * s->run_ms + 0.5);
  put_numbers(t, &run);
  prof_print(t->out, "a run, mean of %llu", (unsigned long long)s->runs);
  if (s->limit_ms > 0) prof_print(t->out, "; this machine's limit: %.2f us", 1e3 * s->limit_ms / (double)s->runs);
  prof_put(t->out, "\n");
  if (s->threads > 1) put_threads(t);
}

static void put_table(table *t, const prof_rows *rows) {
  const uint32_t shown = t->view->limit && t->view->limit < rows->count ? t->view->limit : rows->count;
  prof_row hidden = {0}, all = {0};
  measure(t, rows->at, shown);
  put_head(t);
  for (uint32_t i = 0; i < rows->count; i++) {
    add_row(&all, &rows->at[i]);
    if (i < shown) put_row(t, &rows->at[i]);
    else add_row(&hidden, &rows->at[i]);
  }
  put_rest(t, &hidden, rows->count - shown, &all);
}

td_status prof_write_table(const prof_source *source, const td_profile_view *view, const td_allocator *allocator,
                           prof_out *out, td_error *err) {
  prof_rows rows;
  table t = {.source = source, .view = view, .out = out, .totals = prof_totals(source)};
  TRY(prof_choose_columns(view->columns, &t.chosen, err));
  TRY(prof_rows_make(source, view, allocator, &rows, err));
  if (t.totals.runs) put_table(&t, &rows);
  else prof_put(out, "no run was recorded: the schedule leaves out all that were made\n");
  prof_rows_free(&rows);
  return TD_OK;
}
