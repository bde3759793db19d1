/* nan.c -- says which results hold NaN, and which weight of the model holds one. */
#include <math.h>
#include <string.h>

#include <treadle/experimental.h>

#include "common/feed.h"
#include "common/print.h"

int64_t app_count_nan(const base_value *value) {
  int64_t count = 0;
  for (int64_t i = 0; value->kind == BASE_LIST && i < value->list.count; i++)
    count += app_count_nan(&value->list.items[i]);
  if (value->kind != BASE_TENSOR || !base_is_float(value->tensor.dtype)) return count;
  base_walk w;
  const int64_t *strides[] = {value->tensor.strides};
  base_walk_start(&w, value->tensor.rank, value->tensor.dims, 1, strides);
  for (int64_t i = 0; i < w.count; i++, base_walk_next(&w))
    count += isnan(base_load_f64(value->tensor.dtype, value->tensor.data, w.offset[0]));
  return count;
}

/* Where it comes from, as far as can be told without a run of each node: an input, or a weight. */
static void note_source(const char *name, const td_model *model, const app_feed *feed) {
  char weight[512];
  td_error unused;
  for (size_t i = 0; i < feed->count; i++)
    if (feed->given[i] && app_count_nan(&feed->values[i])) {
      app_note("%s: input %s holds NaN itself", name, feed->infos[i].name);
      return;
    }
  if (td_model_nan_weight(model, weight, sizeof weight, &unused) == TD_OK)
    app_note("%s: the weight %s holds NaN itself", name, weight);
  else app_note("%s: `treadle compare --check-nan` finds the node that makes it", name);
}

void app_note_nan(const char *name, const td_model *model, const app_feed *feed, const char *const *names,
                  const base_value *values, size_t count) {
  bool any = false;
  for (size_t i = 0; i < count; i++) {
    const int64_t found = app_count_nan(&values[i]);
    if (found) app_note("%s: result %s holds NaN, in %lld elements", name, names[i], (long long)found);
    any |= found > 0;
  }
  if (any) note_source(name, model, feed);
}
