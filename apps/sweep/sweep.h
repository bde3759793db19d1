/* sweep.h -- `treadle-sweep`, which `treadle bench --sweep` and `--instances` run: one model measured over a setting.
 */
#ifndef SWEEP_SWEEP_H
#define SWEEP_SWEEP_H
#include <jansson.h>

#include "common/layout.h"

typedef struct sweep_row {
  uint32_t value;                   /* of what is swept; instances that ran side by side */
  uint32_t instances, threads;      /* threads of each instance */
  double p50_ms, p99_ms;            /* the median of the instances; the worst of them */
  double per_s;                     /* samples, of all instances together */
  double efficiency;                /* of as many times one instance alone on its cores; 0: not compared */
  double anon_kib;                  /* memory of all instances that no file backs */
  double best_p50_ms, worst_p50_ms; /* of the instances */
} sweep_row;

typedef struct sweep_table {
  const char *kind; /* "threads", "instances", "batch", "streams" */
  sweep_row *rows;
  uint32_t count;
  const char **commands; /* what uses the setting of each row */
} sweep_table;

uint32_t sweep_fastest(const sweep_table *table);  /* the row of the least p50 */
uint32_t sweep_broadest(const sweep_table *table); /* the row of the most per second */
void sweep_print(const sweep_table *table);
td_status sweep_print_json(const sweep_table *table, td_error *err);
/* A page of its own: throughput and latency over the setting. */
td_status sweep_write_svg(const sweep_table *table, const char *path, td_error *err);

/* Runs `count` times `argv` at once, each on the CPUs of its instance, and adds up what their --json says. */
td_status sweep_measure(char *const *argv, const launch_layout *layout, base_arena *arena, sweep_row *row,
                        td_error *err);
#endif
