/* loss.c -- what layers cost, and which are to stay in f32. */
#include "job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALONE_SAMPLES = 4 /* of which a layer's own cost is found */ };

static td_status open_written(const job *j, int64_t alone, quant_runner *r, td_error *err) {
  base_text file = {.allocator = j->engine.allocator};
  quant_recipe recipe = j->recipe;
  recipe.alone = alone == QUANT_ALL ? NULL : j->layers.at[alone].node;
  const td_status status = quant_write(&j->m, &recipe, &file, err);
  if (status == TD_OK) return quant_open(r, file, &j->engine, err);
  base_text_free(&file);
  return status;
}

td_status quant_loss(const job *j, int64_t alone, const quant_data *data, uint32_t samples, quant_error *errors,
                     double *loss, td_error *err) {
  quant_runner r = {0};
  const uint32_t count = j->outputs.count;
  memset(errors, 0, count * sizeof *errors);
  td_status status = j->precision ? quant_open_halves(j, alone, &r, err) : open_written(j, alone, &r, err);
  if (status == TD_OK) status = quant_compare(&j->f32, &r, data, samples, errors, count, err);
  quant_close(&r);
  *loss = 0;
  for (uint32_t i = 0; i < count; i++) *loss = fmax(*loss, quant_relative(&errors[i]));
  return status;
}

td_status quant_loss_alone(job *j, quant_error *errors, td_error *err) {
  quant_data some;
  if (!quant_spread(j->arena, &j->data, ALONE_SAMPLES, &some)) return base_no_memory(err, "samples");
  for (uint32_t i = 0; i < j->layers.count; i++) {
    quant_progress("layers", i + 1, j->layers.count);
    if (j->layers.at[i].kept) continue;
    TRY(quant_loss(j, i, &some, some.count, errors, &j->layers.at[i].alone, err));
  }
  quant_progress("", 0, 0);
  return TD_OK;
}

void quant_keep(quant_layer *layer, bool kept) {
  layer->kept = kept;
  if (layer->node) layer->node->kept = kept;
}

uint32_t quant_kept(const job *j) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < j->layers.count; i++) kept += j->layers.at[i].kept;
  return kept;
}

uint32_t *quant_by_cost(const job *j) {
  uint32_t *order = base_new(j->arena, uint32_t, (size_t)j->layers.count + 1);
  for (uint32_t i = 0; order && i < j->layers.count; i++) {
    uint32_t at = i;
    for (; at && j->layers.at[order[at - 1]].alone < j->layers.at[i].alone; at--) order[at] = order[at - 1];
    order[at] = i;
  }
  return order;
}

/* Of the layers in `order`, which nobody keeps yet, the first `kept` are. */
static td_status try_first(job *j, const uint32_t *order, uint32_t count, uint32_t kept, quant_error *errors,
                           double *loss, td_error *err) {
  for (uint32_t i = 0; i < count; i++) quant_keep(&j->layers.at[order[i]], i < kept);
  return quant_loss(j, QUANT_ALL, &j->data, j->data.count, errors, loss, err);
}

td_status quant_keep_costly(job *j, quant_error *errors, double *loss, td_error *err) {
  uint32_t *order = quant_by_cost(j), count = 0;
  if (!order) return base_no_memory(err, "layers");
  if (*loss <= j->max_loss) return TD_OK;
  for (uint32_t i = 0; i < j->layers.count; i++) /* but for the caller's own */
    if (!j->layers.at[order[i]].kept) order[count++] = order[i];
  TRY(try_first(j, order, count, count, errors, loss, err));
  if (*loss > j->max_loss) return TD_OK; /* even so */
  uint32_t few = 0, enough = count;
  while (enough - few > 1) {
    const uint32_t middle = few + (enough - few) / 2;
    quant_progress("kept layers", middle, count);
    TRY(try_first(j, order, count, middle, errors, loss, err));
    if (*loss <= j->max_loss) enough = middle;
    else few = middle;
  }
  TRY(try_first(j, order, count, enough, errors, loss, err));
  for (uint32_t i = enough - 1; i-- > 0;) { /* the last one is needed: few were not enough */
    quant_progress("kept layers", i + 1, enough);
    quant_keep(&j->layers.at[order[i]], false);
    TRY(quant_loss(j, QUANT_ALL, &j->data, j->data.count, errors, loss, err));
    if (*loss > j->max_loss) quant_keep(&j->layers.at[order[i]], true);
  }
  quant_progress("", 0, 0);
  return quant_loss(j, QUANT_ALL, &j->data, j->data.count, errors, loss, err);
}
