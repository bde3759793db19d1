/* classes.c -- softmax, selection, and ImageNet's class names (imagenet_classes.txt, deflated by the build). */
#include "classes.h"

#include <math.h>
#include <string.h>

#include "fmt/zip.h"
#include "imagenet_classes.inc" /* packed_classes: CLASSES lines of CLASSES_BYTES in all */

td_status cli_class_names(base_arena *arena, int64_t classes, const char *const **names, td_error *err) {
  *names = NULL;
  if (classes != CLASSES) return TD_OK;
  const char **lines = base_new(arena, const char *, CLASSES);
  char *text = base_arena_alloc(arena, CLASSES_BYTES);
  if (!lines || !text) return base_no_memory(err, "classes");
  TRY(fmt_inflate(packed_classes, sizeof packed_classes, (uint8_t *)text, CLASSES_BYTES, err));
  for (int64_t i = 0; i < CLASSES; i++) {
    lines[i] = text;
    text += strcspn(text, "\n");
    *text++ = '\0';
  }
  *names = lines;
  return TD_OK;
}

bool cli_holds_classes(const base_tensor *tensor) {
  return base_is_float(tensor->dtype) && tensor->rank >= 1 && tensor->dims[tensor->rank - 1] >= 2 &&
         base_tensor_numel(tensor) > 0;
}

static bool is_distribution(const double *values, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) {
    if (!(values[i] >= 0)) return false;
    sum += values[i];
  }
  return fabs(sum - 1) < 1e-3;
}

static void softmax(double *values, int64_t count) {
  double most = values[0], sum = 0;
  for (int64_t i = 1; i < count; i++) most = fmax(most, values[i]);
  for (int64_t i = 0; i < count; i++) sum += values[i] = exp(values[i] - most);
  for (int64_t i = 0; i < count; i++) values[i] /= sum;
}

/* Inserts into a list of `held` classes sorted from the most likely down, which has room for `room`. */
static int64_t insert(cli_class *top, int64_t held, int64_t room, cli_class candidate) {
  int64_t at = held;
  while (at > 0 && !(top[at - 1].probability >= candidate.probability)) at--;
  if (at == room) return held;
  if (held < room) held++;
  for (int64_t i = held - 1; i > at; i--) top[i] = top[i - 1];
  top[at] = candidate;
  return held;
}

td_status cli_top_classes(const base_tensor *tensor, int64_t row, base_arena *arena, cli_class *top, int64_t *count,
                          td_error *err) {
  int64_t classes = tensor->dims[tensor->rank - 1], held = 0;
  double *values = base_new(arena, double, (size_t)classes);
  if (!values) return base_no_memory(err, "classes");
  for (int64_t i = 0; i < classes; i++) values[i] = base_load_f64(tensor->dtype, tensor->data, row * classes + i);
  if (!is_distribution(values, classes)) softmax(values, classes);
  for (int64_t i = 0; i < classes; i++) held = insert(top, held, *count, (cli_class){i, values[i]});
  *count = held;
  return TD_OK;
}
