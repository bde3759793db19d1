/* measure.c -- see measure.h. */
#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "smooth.h"

static td_status open_session(quant_runner *r, td_error *err) {
  const td_session_options session = {.size = sizeof session};
  return td_session_new(r->model, &session, &r->session, err);
}

td_status quant_open(quant_runner *r, base_text file, const quant_engine *engine, td_error *err) {
  const td_load_options options = {.size = sizeof options, .isa = engine->isa, .allocator = engine->allocator};
  *r = (quant_runner){.allocator = engine->allocator, .file = file};
  if (file.failed) return base_no_memory(err, "a model");
  TRY(td_model_load_memory(r->file.at, r->file.length, &options, &r->model, err));
  return open_session(r, err);
}

td_status quant_open_path(quant_runner *r, const char *path, const td_load_options *options, td_error *err) {
  *r = (quant_runner){.allocator = options->allocator};
  TRY(td_model_load(path, options, &r->model, err));
  return open_session(r, err);
}

void quant_close(quant_runner *r) {
  td_session_free(r->session);
  td_model_free(r->model);
  base_text_free(&r->file);
  *r = (quant_runner){0};
}

void quant_progress(const char *what, uint32_t done, uint32_t all) {
  if (!isatty(STDERR_FILENO)) return;
  if (*what) fprintf(stderr, "\r%s: %u of %u\033[K", what, done, all);
  else fprintf(stderr, "\r\033[K");
}

td_status quant_run_sample(const quant_runner *r, const quant_data *data, uint32_t i, base_arena *arena,
                           td_error *err) {
  TRY(quant_set_sample(data, i, r->model, r->session, arena, err));
  return td_session_run(r->session, err);
}

/* ---- ranges ---- */

static td_status observe(const quant_runner *r, const quant_data *data, quant_ranges *ranges, bool histogram,
                         td_error *err) {
  for (uint32_t i = 0; i < data->count; i++) {
    base_arena *arena = base_arena_new(r->allocator);
    if (!arena) return base_no_memory(err, "a sample");
    quant_progress(histogram ? "histograms" : "ranges", i + 1, data->count);
    td_status status = quant_run_sample(r, data, i, arena, err);
    for (uint32_t k = 0; k < ranges->at.count && status == TD_OK; k++) {
      quant_range *range = &ranges->at.at[k];
      td_tensor t;
      status = td_session_output(r->session, range->output, &t, err);
      if (status != TD_OK || t.dtype != TD_F32) continue;
      int64_t count = 1;
      for (int32_t d = 0; d < t.rank; d++) count *= t.dims[d];
      range->is_f32 = true;
      quant_observe(range, t.data, count, histogram);
    }
    base_arena_free(arena);
    TRY(status);
  }
  return TD_OK;
}

td_status quant_measure(quant_model *m, const quant_data *data, quant_observer observer, const quant_engine *engine,
                        quant_ranges *ranges, td_error *err) {
  const char **names = base_new(m->arena, const char *, (size_t)ranges->at.count + 1);
  base_text file = {.allocator = engine->allocator};
  quant_runner r;
  if (!names) return base_no_memory(err, "tensors");
  uint32_t count = 0;
  for (uint32_t i = 0; i < ranges->at.count; i++) {
    quant_range *range = &ranges->at.at[i];
    range->output = 0;
    while (range->output < m->outputs.count && strcmp(m->outputs.at[range->output], range->name) != 0) range->output++;
    if (range->output < m->outputs.count) continue;
    range->output = m->outputs.count + count;
    names[count++] = range->name;
  }
  quant_write_tapped(m, names, count, &file);
  td_status status = quant_open(&r, file, engine, err);
  if (status == TD_OK) status = observe(&r, data, ranges, false, err);
  for (uint32_t i = 0; i < ranges->at.count && observer != QUANT_MINMAX && status == TD_OK; i++)
    if (!(ranges->at.at[i].bins = base_new(m->arena, uint64_t, QUANT_BINS))) status = base_no_memory(err, "histograms");
  if (status == TD_OK && observer != QUANT_MINMAX) status = observe(&r, data, ranges, true, err);
  for (uint32_t i = 0; i < ranges->at.count && status == TD_OK; i++) {
    quant_progress("scales", i + 1, ranges->at.count);
    quant_choose(&ranges->at.at[i], observer);
  }
  quant_progress("", 0, 0);
  quant_close(&r);
  return status;
}

/* ---- magnitudes of channels ---- */

static td_status observe_channels(const quant_runner *r, size_t first, const quant_data *data, quant_smoothing *s,
                                  td_error *err) {
  for (uint32_t i = 0; i < data->count; i++) {
    base_arena *arena = base_arena_new(r->allocator);
    if (!arena) return base_no_memory(err, "a sample");
    quant_progress("channels", i + 1, data->count);
    td_status status = quant_run_sample(r, data, i, arena, err);
    for (uint32_t k = 0; k < s->at.count && status == TD_OK; k++) {
      quant_smoothed *to = &s->at.at[k];
      td_tensor t;
      status = td_session_output(r->session, first + k, &t, err);
      if (status != TD_OK || t.dtype != TD_F32 || !t.rank || t.dims[t.rank - 1] != to->channels) continue;
      int64_t count = 1;
      for (int32_t d = 0; d < t.rank; d++) count *= t.dims[d];
      for (int64_t n = 0; n < count; n++) {
        const float x = fabsf(((const float *)t.data)[n]);
        if (isfinite(x)) to->most[n % to->channels] = fmaxf(to->most[n % to->channels], x);
      }
    }
    base_arena_free(arena);
    TRY(status);
  }
  quant_progress("", 0, 0);
  return TD_OK;
}

td_status quant_measure_smoothed(const quant_model *m, const quant_data *data, const quant_engine *engine,
                                 quant_smoothing *s, td_error *err) {
  const char **names = base_new(m->arena, const char *, (size_t)s->at.count + 1);
  base_text file = {.allocator = engine->allocator};
  quant_runner r;
  if (!names) return base_no_memory(err, "tensors");
  for (uint32_t i = 0; i < s->at.count; i++) names[i] = s->at.at[i].x;
  quant_write_tapped(m, names, s->at.count, &file);
  td_status status = quant_open(&r, file, engine, err);
  if (status == TD_OK) status = observe_channels(&r, m->outputs.count, data, s, err);
  quant_close(&r);
  return status;
}

/* ---- errors ---- */

double quant_relative(const quant_error *e) {
  return e->differences == 0 ? 0 : sqrt(e->differences / fmax(e->squares, 1e-300));
}

static void compare_row(const float *a, const float *b, int64_t n, quant_error *e) {
  int64_t best_a = 0, best_b = 0;
  for (int64_t i = 0; i < n; i++) {
    const double d = (double)a[i] - (double)b[i];
    if (isfinite((double)a[i])) {
      e->differences += isfinite(d) ? d * d : (double)INFINITY;
      e->squares += (double)a[i] * (double)a[i];
      e->most = fmax(e->most, fabs(d));
    }
    if (a[i] > a[best_a]) best_a = i;
    if (b[i] > b[best_b]) best_b = i;
  }
  e->rows++;
  e->agree += best_a == best_b;
}

static td_status compare_output(const quant_runner *f32, const quant_runner *narrow, size_t index, quant_error *e,
                                td_error *err) {
  td_tensor a, b;
  TRY(td_session_output(f32->session, index, &a, err));
  TRY(td_session_output(narrow->session, index, &b, err));
  if (a.dtype != TD_F32 || b.dtype != TD_F32 || a.rank != b.rank ||
      memcmp(a.dims, b.dims, (size_t)a.rank * sizeof *a.dims) != 0)
    return TD_OK;
  int64_t rows = 1;
  const int64_t n = a.rank ? a.dims[a.rank - 1] : 1;
  for (int32_t d = 0; d < a.rank - 1; d++) rows *= a.dims[d];
  for (int64_t i = 0; i < rows && n > 0; i++)
    compare_row((const float *)a.data + i * n, (const float *)b.data + i * n, n, e);
  return TD_OK;
}

td_status quant_compare(const quant_runner *f32, const quant_runner *narrow, const quant_data *data, uint32_t samples,
                        quant_error *errors, uint32_t count, td_error *err) {
  for (uint32_t i = 0; i < samples; i++) {
    base_arena *arena = base_arena_new(f32->allocator);
    if (!arena) return base_no_memory(err, "a sample");
    td_status status = quant_run_sample(f32, data, i, arena, err);
    if (status == TD_OK) status = quant_run_sample(narrow, data, i, arena, err);
    for (uint32_t k = 0; k < count && status == TD_OK; k++) status = compare_output(f32, narrow, k, &errors[k], err);
    base_arena_free(arena);
    TRY(status);
  }
  return TD_OK;
}
