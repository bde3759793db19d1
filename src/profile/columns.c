/* columns.c -- the figures of a row by name, which tables, CSV and JSON share. Each is of one run, or a ratio. */
#include <string.h>

#include "profile/profile_priv.h"

static double per_run(double sum, const td_profile_totals *t) { return t->runs ? sum / (double)t->runs : 0; }
static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

static double self_us(const prof_row *r, const td_profile_totals *t) { return 1e-3 * per_run((double)r->self_ns, t); }
static double total_us(const prof_row *r, const td_profile_totals *t) { return 1e-3 * per_run((double)r->ns, t); }
static double share(const prof_row *r, const td_profile_totals *t) {
  return 1e-4 * ratio((double)r->self_ns, t->run_ms);
}
static double calls(const prof_row *r, const td_profile_totals *t) { return per_run((double)r->calls, t); }
static double flop(const prof_row *r, const td_profile_totals *t) { return per_run(r->flops, t); }
static double bytes(const prof_row *r, const td_profile_totals *t) { return per_run(r->bytes, t); }
static double limit_us(const prof_row *r, const td_profile_totals *t) { return 1e3 * per_run(r->limit_ms, t); }
static double mean_us(const prof_row *r, const td_profile_totals *t) {
  (void)t;
  return 1e-3 * ratio((double)r->ns, (double)r->calls);
}
static double gflops(const prof_row *r, const td_profile_totals *t) {
  (void)t;
  return ratio(r->flops, (double)r->ns);
}
static double gbs(const prof_row *r, const td_profile_totals *t) {
  (void)t;
  return ratio(r->bytes, (double)r->ns);
}
static double reach(const prof_row *r, const td_profile_totals *t) {
  (void)t;
  return 1e8 * ratio(r->limit_ms, (double)r->ns);
}
/* Steps add up to the time that passed: one that other threads came to while the caller had another one has less of it
 * than they spent. It lasted as long as an even part of theirs. */
static double busy(const prof_row *r, const td_profile_totals *t) {
  const double threads = ratio((double)r->busy_ns, (double)r->ns);
  return threads < t->threads ? threads : t->threads;
}
static double memory(const prof_row *r, const td_profile_totals *t) {
  (void)t;
  return (double)r->memory;
}
static double steps(const prof_row *r, const td_profile_totals *t) {
  (void)t;
  return r->steps;
}

static const char *op(const prof_row *r) { return r->first->op ? r->first->op : ""; }
static const char *kernel(const prof_row *r) { return r->first->kernel ? r->first->kernel : ""; }

const prof_column prof_columns[PROF_COLUMNS] = {
    [PROF_COLUMN_SELF] = {"self", "self us", NULL, 10, 2, self_us, NULL},
    [PROF_COLUMN_TOTAL] = {"total", "us", NULL, 10, 2, total_us, NULL},
    [PROF_COLUMN_SHARE] = {"share", "share", "share_percent", 6, PROF_PERCENT, share, NULL},
    [PROF_COLUMN_CALLS] = {"calls", "calls", NULL, 6, PROF_SCALED, calls, NULL},
    [PROF_COLUMN_MEAN] = {"mean", "mean us", "mean_us", 9, 2, mean_us, NULL},
    [PROF_COLUMN_FLOP] = {"flop", "FLOP", NULL, 7, PROF_SCALED, flop, NULL},
    [PROF_COLUMN_BYTES] = {"bytes", "bytes", NULL, 7, PROF_SCALED, bytes, NULL},
    [PROF_COLUMN_GFLOPS] = {"gflops", "GFLOP/s", "gflop_per_s", 7, 1, gflops, NULL},
    [PROF_COLUMN_GBS] = {"gbs", "GB/s", "gb_per_s", 6, 1, gbs, NULL},
    [PROF_COLUMN_LIMIT] = {"limit", "limit us", NULL, 10, 2, limit_us, NULL},
    [PROF_COLUMN_REACH] = {"reach", "limit", "limit_percent", 6, PROF_PERCENT, reach, NULL},
    [PROF_COLUMN_BUSY] = {"busy", "busy", "threads_busy", 5, 2, busy, NULL},
    [PROF_COLUMN_MEMORY] = {"memory", "memory", "memory_bytes", 7, PROF_SCALED, memory, NULL},
    [PROF_COLUMN_STEPS] = {"steps", "steps", NULL, 6, PROF_SCALED, steps, NULL},
    [PROF_COLUMN_OP] = {"op", "operator", NULL, 28, 0, NULL, op},
    [PROF_COLUMN_KERNEL] = {"kernel", "kernel", NULL, 28, 0, NULL, kernel},
};

static const char usual[] = "self,share,calls,gflops,gbs,reach,busy,kernel";

/* The column called `word`; PROF_COLUMNS: none. */
static uint32_t find_column(base_str word) {
  uint32_t i = 0;
  while (i < PROF_COLUMNS && !base_str_is(word, prof_columns[i].name)) i++;
  return i;
}

td_status prof_choose_columns(const char *list, uint32_t *chosen, td_error *err) {
  const char *at = list ? list : usual;
  *chosen = 0;
  do {
    const base_str word = {at, strcspn(at, ",")};
    const uint32_t found = find_column(word), all = (1u << PROF_COLUMNS) - 1;
    if (found == PROF_COLUMNS && !base_str_is(word, "all"))
      return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                       "there is no column '%.*s': there are self, total, share, calls, mean, flop, bytes, gflops, "
                       "gbs, limit, reach, busy, memory, steps, op, kernel, and all",
                       (int)(word.length < 40 ? word.length : 40), word.at);
    *chosen |= found < PROF_COLUMNS ? 1u << found : all;
    at += word.length + (at[word.length] == ',');
  } while (*at);
  return TD_OK;
}
