/* measure.h -- running models on samples: ranges of their tensors, and the difference of two of them. */
#ifndef QUANTIZE_MEASURE_H
#define QUANTIZE_MEASURE_H
#include "quantize.h"

/* How models are loaded, here and by the job. */
typedef struct quant_engine {
  const char *isa; /* the level, or NULL */
  const td_allocator *allocator;
} quant_engine;

/* A model in memory on its samples. */
typedef struct quant_runner {
  const td_allocator *allocator;
  base_text file;
  td_model *model;
  td_session *session;
} quant_runner;
/* Takes `file` over; close it in any case. */
td_status quant_open(quant_runner *r, base_text file, const quant_engine *engine, td_error *err);
td_status quant_open_path(quant_runner *r, const char *path, const td_load_options *options, td_error *err);
void quant_close(quant_runner *r);

/* A run on sample `i`, whose inputs live in `arena` until the next one. */
td_status quant_run_sample(const quant_runner *r, const quant_data *data, uint32_t i, base_arena *arena, td_error *err);

/* One line on a terminal, over and over; "" ends it. */
void quant_progress(const char *what, uint32_t done, uint32_t all);

td_status quant_measure(quant_model *m, const quant_data *data, quant_observer observer, const quant_engine *engine,
                        quant_ranges *ranges, td_error *err);

/* How far an output is from that of f32, over all samples. */
typedef struct quant_error {
  const char *name;
  double differences, squares; /* sums of squares: of what parts them, of f32's */
  double most;                 /* difference */
  uint64_t rows, agree;        /* rows of the last dimension, those of equal largest element */
} quant_error;
double quant_relative(const quant_error *e);
/* `errors`: of the first `count` outputs of both. */
td_status quant_compare(const quant_runner *f32, const quant_runner *narrow, const quant_data *data, uint32_t samples,
                        quant_error *errors, uint32_t count, td_error *err);
#endif
