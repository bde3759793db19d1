/* layers.c -- the time of each step beside what it takes at least.
 *
 * A step's time is that of the run where it was shortest: what interrupted it elsewhere was no work of its own. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "common/measure.h"

static const char saves_arithmetic[] = "td::winograd_conv";
enum { LEAST_RUNS = 3 }; /* where there is a time to fill at all */

static td_status record_runs(td_session *session, td_profile *profile, double min_ms, td_error *err) {
  const double start = app_now_ms();
  uint32_t runs = 0;
  TRY(td_profile_clear(profile, err));
  do TRY(td_session_run(session, err));
  while (min_ms > 0 && (++runs < LEAST_RUNS || app_now_ms() - start < min_ms));
  return TD_OK;
}

/* Adds the layer of step `index`. */
static void add_layer(const td_step *step, const td_profile_step *p, uint64_t runs, const td_limits *limits,
                      double footprint, cli_layers *layers) {
  cli_layer *layer = &layers->layers[layers->count++];
  const td_work work = {.flops = step->flops,
                        .const_bytes = step->const_bytes,
                        .read = step->read_bytes,
                        .written = step->write_bytes,
                        .footprint = footprint,
                        .multiplied = step->multiplied};
  *layer = (cli_layer){.step = *step, .ms = (double)p->least_ns * 1e-6, .calls = (uint32_t)(p->calls / runs)};
  layer->limit_ms = td_limit_ms(limits, &work) * layer->calls;
  layers->ms += layer->ms;
  layers->flops += step->flops * layer->calls;
  layers->limit_ms += layer->limit_ms;
  layers->impossible |=
      strcmp(step->op, saves_arithmetic) != 0 && td_beats_limit(limits, &work, layer->ms / layer->calls);
}

static td_status read_layers(const td_session *session, const td_profile *profile, uint32_t steps,
                             const td_limits *limits, double footprint, cli_layers *layers, td_error *err) {
  td_profile_totals totals = {.size = sizeof totals};
  TRY(td_profile_get_totals(profile, &totals, err));
  for (uint32_t i = 0; i < steps; i++) {
    td_step step = {.size = sizeof step};
    td_profile_step recorded = {.size = sizeof recorded};
    TRY(td_session_get_step(session, i, &step, err));
    TRY(td_profile_get_step(profile, i, &recorded, err));
    if (recorded.calls >= totals.runs) add_layer(&step, &recorded, totals.runs, limits, footprint, layers);
  }
  return TD_OK;
}

td_status cli_time_layers(td_session *session, const td_model *model, const td_limits *limits, double min_ms,
                          base_arena *arena, cli_layers *layers, td_error *err) {
  const td_profile_options options = {.size = sizeof options, .records = 1};
  app_figures figures = {0};
  td_profile *profile;
  TRY(app_read_figures(model, session, &figures, err));
  const uint32_t steps = figures.model.steps;
  const double footprint = (double)figures.model.weights_bytes + (double)figures.session.arena_bytes;
  *layers = (cli_layers){.layers = base_new(arena, cli_layer, (size_t)steps + 1)};
  if (!layers->layers) return base_no_memory(err, "a profile");
  TRY(td_profile_new(session, &options, &profile, err));
  td_status status = record_runs(session, profile, min_ms, err);
  if (status == TD_OK) status = read_layers(session, profile, steps, limits, footprint, layers, err);
  td_profile_free(profile);
  return status;
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
  printf("%s%10s %6s %8s %8s %7s  %-32s %s%s\n", app_colour_code(stdout, APP_BOLD), "us", "share", "GFLOP/s", "GB/s",
         "limit", "kernel", "layer", app_colour_code(stdout, APP_PLAIN));
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
    app_json_set(row, "name", app_json_text(name_of(&l->step)));
    app_json_set(row, "op", app_json_text(l->step.op));
    app_json_set(row, "kernel", app_json_text(l->step.kernel));
    app_json_set(row, "calls", json_integer(l->calls));
    app_json_set(row, "us", app_json_real(1e3 * l->ms));
    app_json_set(row, "share", app_json_real(l->ms / p->ms));
    app_json_set(row, "flop", app_json_real(l->step.flops * l->calls));
    app_json_set(row, "bytes", app_json_real(bytes_of(&l->step) * l->calls));
    app_json_set(row, "limit_us", app_json_real(1e3 * l->limit_ms));
    app_json_set(row, "percent_of_limit", app_json_real(l->ms > 0 ? 100 * l->limit_ms / l->ms : 0));
    app_json_set(rows, NULL, row);
  }
  free(layers);
  return rows;
}
