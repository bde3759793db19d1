/* table.c -- rows for people. All times are of one run: sums divided by the number of runs. The first column adds up to
 * the run: what the caller's thread computed, and rows for what it did else. */
#include <stdio.h>
#include <string.h>

#include "profile/profile_priv.h"

enum { BEFORE_NAMES = 114, MOST_NODES = 12 };

/* `nodes`: that its step stands for; the first is in the row itself. */
static void print_row(const prof_source *source, size_t nodes, prof_out *out, const prof_row *row,
                      const td_profile_totals *t) {
  const double runs = (double)t->runs, ns = row->ns ? (double)row->ns : 1, us = ns * 1e-3;
  const double self_us = 1e-3 * (double)row->self_ns, calls = row->calls ? (double)row->calls : 1;
  prof_print(out, "%10.2f %10.2f %5.1f%% %7.4g %9.2f %8.1f %8.1f ", self_us / runs, row->ns ? us / runs : 0,
             t->run_ms > 0 ? 0.1 * self_us / t->run_ms : 0, (double)row->calls / runs, us / calls, row->flops / ns,
             row->bytes / ns);
  if (t->limit_ms > 0) prof_print(out, "%6.1f%% ", 1e8 * row->limit_ms / ns);
  else prof_put(out, "      - ");
  prof_print(out, "%5.2f  %-32.200s %.*s", (double)row->busy_ns / ns, row->first->kernel,
             (int)(row->name_length < 400 ? row->name_length : 400), row->name);
  if (row->steps > 1) prof_print(out, "  (%u steps)", row->steps);
  prof_put(out, "\n");
  for (size_t i = 1; i < nodes; i++) {
    const base_str also = prof_origin(source, row->step, i);
    prof_print(out, "%*s+ %.*s\n", BEFORE_NAMES, "", (int)(also.length < 400 ? also.length : 400), also.at);
  }
}

static void put_time(prof_out *out, double us, double of_us, const char *what) {
  prof_print(out, "%10.2f %10s %5.1f%%  %s\n", us, "", of_us > 0 ? 100 * us / of_us : 0, what);
}

/* Where all threads' time went, not the caller's alone. */
static void print_threads(prof_out *out, const td_profile_totals *t) {
  const double us = 1e3 / (double)t->runs, all_us = us * t->run_ms * t->threads;
  const double known_ms = t->busy_ms + t->single_ms + t->late_ms + t->early_ms;
  prof_print(out, "%10.2f %10s 100.0%%  of %u threads\n", all_us, "", t->threads);
  put_time(out, us * t->busy_ms, all_us, "computing");
  put_time(out, us * t->single_ms, all_us, "one thread has work, the others spin: steps too small to share");
  put_time(out, us * t->late_ms, all_us, "late to a shared step: wake-up");
  put_time(out, us * t->early_ms, all_us, "through with a shared step before others: imbalance");
  put_time(out, all_us - us * known_ms, all_us, "between steps");
}

static void print_rest(prof_out *out, const td_profile_totals *t, uint32_t hidden, double hidden_us) {
  const double runs = (double)t->runs, run_us = 1e3 * t->run_ms / runs;
  char text[64];
  snprintf(text, sizeof text, "in %u more rows", hidden);
  if (hidden) put_time(out, hidden_us, run_us, text);
  if (t->threads > 1) put_time(out, 1e3 * t->wait_ms / runs, run_us, "waiting for other threads at the end of steps");
  put_time(out, 1e3 * t->between_ms / runs, run_us, "between steps: the walk of the plan, hand-over, interruptions");
  prof_print(out, "%10.2f %10s 100.0%%  a run, mean of %llu", run_us, "", (unsigned long long)t->runs);
  if (t->limit_ms > 0)
    prof_print(out, "; limit %.2f us, %.1f %% of it reached", 1e3 * t->limit_ms / runs, 100 * t->limit_ms / t->run_ms);
  prof_put(out, "\n");
  if (t->threads > 1) print_threads(out, t);
}

/* How many nodes a row names: one, but those of a fused kernel, where rows are steps. */
static size_t nodes_of(const prof_source *source, const td_profile_view *view, const prof_row *row) {
  if (view->group && strcmp(view->group, "node") != 0) return 0;
  const size_t nodes = prof_origin_count(source, row->step);
  return nodes < MOST_NODES ? nodes : MOST_NODES;
}

td_status prof_write_table(const prof_source *source, const td_profile_view *view, const td_allocator *allocator,
                           prof_out *out, td_error *err) {
  prof_rows rows;
  TRY(prof_rows_make(source, view, allocator, &rows, err));
  const td_profile_totals totals = prof_totals(source);
  if (totals.runs == 0) {
    prof_put(out, "no run was recorded\n");
    prof_rows_free(&rows);
    return TD_OK;
  }
  const uint32_t shown = view->limit && view->limit < rows.count ? view->limit : rows.count;
  double hidden_us = 0;
  prof_print(out, "%10s %10s %6s %7s %9s %8s %8s %7s %5s  %-32s %s\n", "self us", "us", "share", "calls", "mean us",
             "GFLOP/s", "GB/s", "limit", "busy", "kernel", view->group ? view->group : "node");
  for (uint32_t i = 0; i < rows.count; i++)
    if (i < shown) print_row(source, nodes_of(source, view, &rows.at[i]), out, &rows.at[i], &totals);
    else hidden_us += (double)rows.at[i].self_ns * 1e-3 / (double)totals.runs;
  print_rest(out, &totals, rows.count - shown, hidden_us);
  prof_rows_free(&rows);
  return TD_OK;
}
