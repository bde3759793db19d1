/* classes.h -- the most likely classes of a classifier's output, by name. */
#ifndef CLI_CLASSES_H
#define CLI_CLASSES_H
#include "cli.h"

typedef struct cli_class {
  int64_t index;
  double probability;
} cli_class;

/* Whether a tensor can be scores of classes: floats, at least two along the last dimension. */
bool cli_holds_classes(const base_tensor *tensor);
/* The `*count` most likely classes of row `row` (the last dimension of a contiguous tensor), most likely first. Scores
 * become probabilities by softmax; a row that is a distribution already is taken as it is. `*count` shrinks to the
 * number of classes. */
td_status cli_top_classes(const base_tensor *tensor, int64_t row, base_arena *arena, cli_class *top, int64_t *count,
                          td_error *err);
/* ImageNet's names in the order of their classes, in `arena`, when `classes` is as many; *names is NULL otherwise. */
td_status cli_class_names(base_arena *arena, int64_t classes, const char *const **names, td_error *err);
#endif
