/* layers.c -- the time of each step beside what it takes at least.
 *
 * A step's time is that of the run where it was shortest: what interrupted it elsewhere was no work of its own. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const char saves_arithmetic[] = "td::winograd_conv";
enum { LEAST_RUNS = 3 }; /* where there is a time to fill at all */

typedef struct watch {
  uint64_t run_ns, best_ns; /* of the run in progress; of the best, 0: none yet */
  uint32_t calls;           /* in the run in progress */
} watch;

static void step_ends(void *user, uint32_t step, uint64_t ns) {
  watch *w = &((watch *)user)[step];
  w->run_ns += ns;
  w->calls++;
}

static void begin_run(watch *watches, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) watches[i].calls = 0, watches[i].run_ns = 0;
}

static void end_run(watch *watches, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    watch *w = &watches[i];
    if (w->calls && (w->best_ns == 0 || w->run_ns < w->best_ns)) w->best_ns = w->run_ns;
  }
}

static td_status watch_runs(td_session *session, watch *watches, uint32_t count, double min_ms, td_error *err) {
  const td_observer observer = {.user = watches, .end = step_ends};
  double start = cli_now_ms();
  uint32_t runs = 0;
  TRY(td_session_observe(session, &observer, err));
  td_status status;
  do {
    begin_run(watches, count);
    status = td_session_run(session, err);
    end_run(watches, count);
  } while (status == TD_OK && min_ms > 0 && (++runs < LEAST_RUNS || cli_now_ms() - start < min_ms));
  td_session_observe(session, NULL, NULL);
  return status;
}

/* Adds the layer of step `index` to the profile. */
static td_status describe(const td_session *session, uint32_t index, const watch *w, const td_limits *limits,
                          double footprint, cli_layers *profile, td_error *err) {
  cli_layer *layer = &profile->layers[profile->count++];
  layer->step.size = sizeof layer->step;
  TRY(td_session_get_step(session, index, &layer->step, err));
  const td_work work = {.flops = layer->step.flops,
                        .const_bytes = layer->step.const_bytes,
                        .read = layer->step.read_bytes,
                        .written = layer->step.write_bytes,
                        .footprint = footprint};
  layer->calls = w->calls;
  layer->ms = (double)w->best_ns * 1e-6;
  layer->limit_ms = td_limit_ms(limits, &work) * w->calls;
  profile->ms += layer->ms;
  profile->flops += layer->step.flops * layer->calls;
  profile->limit_ms += layer->limit_ms;
  profile->impossible |=
      strcmp(layer->step.op, saves_arithmetic) != 0 && td_beats_limit(limits, &work, layer->ms / w->calls);
  return TD_OK;
}

td_status cli_time_layers(td_session *session, const td_model *model, const td_limits *limits, double min_ms,
                          base_arena *arena, cli_layers *profile, td_error *err) {
  cli_figures figures = {0};
  TRY(cli_read_figures(model, session, &figures, err));
  const uint32_t steps = figures.model.steps;
  const double footprint = (double)figures.model.weights_bytes + (double)figures.session.arena_bytes;
  watch *watches = base_new(arena, watch, (size_t)steps + 1);
  *profile = (cli_layers){.layers = base_new(arena, cli_layer, (size_t)steps + 1)};
  if (!watches || !profile->layers) return base_no_memory(err, "a profile");
  TRY(watch_runs(session, watches, steps, min_ms, err));
  for (uint32_t i = 0; i < steps; i++)
    if (watches[i].calls) TRY(describe(session, i, &watches[i], limits, footprint, profile, err));
  return TD_OK;
}

/* ---- printing ---- */

static double bytes_of(const td_step *s) { return s->const_bytes + s->read_bytes + s->write_bytes; }

static int slowest_first(const void *a, const void *b) {
  const cli_layer *x = *(const cli_layer *const *)a, *y = *(const cli_layer *const *)b;
  return (x->ms < y->ms) - (x->ms > y->ms);
}

/* Steps that do work, slowest first, in memory of the C library; the caller frees it. NULL: out of memory. */
static const cli_layer **sorted(const cli_layers *p, uint32_t *count) {
  const cli_layer **layers = malloc((p->count + 1u) * sizeof *layers);
  *count = 0;
  for (uint32_t i = 0; layers && i < p->count; i++)
    if (bytes_of(&p->layers[i].step) > 0) layers[(*count)++] = &p->layers[i];
  if (layers) qsort(layers, *count, sizeof *layers, slowest_first);
  return layers;
}

static const char *name_of(const td_step *s) { return strncmp(s->name, "node ", 5) == 0 ? s->name + 5 : s->name; }

void cli_layers_print(const cli_layers *p) {
  uint32_t count;
  const cli_layer **layers = sorted(p, &count);
  printf("%s%10s %6s %8s %8s %7s  %-32s %s%s\n", cli_colour_code(stdout, CLI_BOLD), "us", "share", "GFLOP/s", "GB/s",
         "limit", "kernel", "layer", cli_colour_code(stdout, CLI_PLAIN));
  for (uint32_t i = 0; layers && i < count; i++) {
    const cli_layer *l = layers[i];
    const double ms = l->ms > 0 ? l->ms : 1e-6; /* a clock that did not move */
    printf("%10.2f %5.1f%% %8.1f %8.1f %6.1f%%  %-32s %s\n", 1e3 * l->ms, 100 * l->ms / p->ms,
           l->step.flops * l->calls / ms * 1e-6, bytes_of(&l->step) * l->calls / ms * 1e-6, 100 * l->limit_ms / ms,
           l->step.kernel, name_of(&l->step));
  }
  printf("%10.2f  sum of the shortest times of all steps; limit %.2f us\n", 1e3 * p->ms, 1e3 * p->limit_ms);
  free(layers);
}

json_t *cli_layers_json(const cli_layers *p) {
  uint32_t count;
  const cli_layer **layers = sorted(p, &count);
  json_t *rows = json_array();
  for (uint32_t i = 0; layers && i < count; i++) {
    const cli_layer *l = layers[i];
    json_t *row = json_object();
    cli_json_set(row, "name", cli_json_text(name_of(&l->step)));
    cli_json_set(row, "op", cli_json_text(l->step.op));
    cli_json_set(row, "kernel", cli_json_text(l->step.kernel));
    cli_json_set(row, "calls", json_integer(l->calls));
    cli_json_set(row, "us", cli_json_real(1e3 * l->ms));
    cli_json_set(row, "share", cli_json_real(l->ms / p->ms));
    cli_json_set(row, "flop", cli_json_real(l->step.flops * l->calls));
    cli_json_set(row, "bytes", cli_json_real(bytes_of(&l->step) * l->calls));
    cli_json_set(row, "limit_us", cli_json_real(1e3 * l->limit_ms));
    cli_json_set(row, "percent_of_limit", cli_json_real(l->ms > 0 ? 100 * l->limit_ms / l->ms : 0));
    cli_json_set(rows, NULL, row);
  }
  free(layers);
  return rows;
}
