/* table.c -- rows for people. All times are of one run: sums divided by the number of runs. */
#include "profile/profile_priv.h"

static void print_row(prof_out *out, const prof_row *row, const td_profile_totals *t) {
  const double runs = (double)t->runs, ns = row->ns ? (double)row->ns : 1, us = ns * 1e-3;
  prof_print(out, "%10.2f %5.1f%% %7.4g %9.2f %8.1f %8.1f ", us / runs, t->run_ms > 0 ? 0.1 * us / t->run_ms : 0,
             (double)row->calls / runs, us / (double)row->calls, row->flops / ns, row->bytes / ns);
  if (t->limit_ms > 0) prof_print(out, "%6.1f%% ", 1e8 * row->limit_ms / ns);
  else prof_put(out, "      - ");
  prof_print(out, "%5.2f  %-32.200s %.*s", (double)row->busy_ns / ns, row->first->kernel,
             (int)(row->name_length < 400 ? row->name_length : 400), row->name);
  if (row->steps > 1) prof_print(out, "  (%u steps)", row->steps);
  prof_put(out, "\n");
}

static void print_rest(prof_out *out, const td_profile_totals *t, uint32_t hidden, double hidden_us) {
  const double runs = (double)t->runs, run_us = 1e3 * t->run_ms / runs, step_us = 1e3 * t->step_ms / runs;
  if (hidden) prof_print(out, "%10.2f %5.1f%%  in %u more rows\n", hidden_us, 100 * hidden_us / run_us, hidden);
  prof_print(out, "%10.2f %5.1f%%  between steps: the walk of the plan, wake-ups, interruptions\n", run_us - step_us,
             100 * (run_us - step_us) / run_us);
  prof_print(out, "%10.2f 100.0%%  a run, mean of %llu", run_us, (unsigned long long)t->runs);
  if (t->limit_ms > 0)
    prof_print(out, "; limit %.2f us, %.1f %% of it reached", 1e3 * t->limit_ms / runs, 100 * t->limit_ms / t->run_ms);
  prof_put(out, "\n");
  if (t->threads > 1) {
    const double all_us = run_us * t->threads, busy_us = 1e3 * t->busy_ms / runs;
    prof_print(
        out,
        "%10.2f us of %u threads: %.1f %% computing, %.1f %% waiting (single-threaded steps, imbalance, hand-over)\n",
        all_us, t->threads, 100 * busy_us / all_us, 100 * (all_us - busy_us) / all_us);
  }
}

td_status prof_write_table(const prof_source *source, const td_profile_view *view, const td_allocator *allocator,
                           prof_out *out, td_error *err) {
  prof_rows rows;
  TRY(prof_rows_make(source, view, allocator, &rows, err));
  const td_profile_totals totals = prof_totals(source);
  if (totals.runs == 0) {
    prof_put(out, "no run was recorded\n");
    prof_rows_free(allocator, &rows);
    return TD_OK;
  }
  const uint32_t shown = view->limit && view->limit < rows.count ? view->limit : rows.count;
  double hidden_us = 0;
  prof_print(out, "%10s %6s %7s %9s %8s %8s %7s %5s  %-32s %s\n", "us", "share", "calls", "mean us", "GFLOP/s", "GB/s",
             "limit", "busy", "kernel", view->group ? view->group : "node");
  for (uint32_t i = 0; i < rows.count; i++)
    if (i < shown) print_row(out, &rows.at[i], &totals);
    else hidden_us += (double)rows.at[i].ns * 1e-3 / (double)totals.runs;
  print_rest(out, &totals, rows.count - shown, hidden_us);
  prof_rows_free(allocator, &rows);
  return TD_OK;
}
