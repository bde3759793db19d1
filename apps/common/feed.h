/* feed.h -- the inputs of a model: what the user's words say of them, and their values. */
#ifndef COMMON_FEED_H
#define COMMON_FEED_H
#include "base/base.h"

typedef BASE_VEC(const char *) app_words;

/* What the user gives and says. */
typedef struct app_inputs {
  const char *model;      /* its path, for notes and for what models of the library were trained with */
  app_words values;       /* [NAME=]FILE or [NAME=]SHAPE:DTYPE:FILL */
  app_words shapes;       /* NAME=DIMS, NAME=DIMS:DTYPE, or the size of a named dimension in all inputs, NAME=SIZE */
  const char *preprocess; /* how pictures become inputs; NULL: as the model was trained */
  uint64_t seed;          /* of made-up data */
  int64_t batch;          /* size of an open first dimension; 0: not said */
} app_inputs;

/* ---- before a model is loaded, for formats that do not say it (specs.c) ---- */

td_status app_spec_of_value(const base_value *value, const char *name, td_input_spec *spec, td_error *err);
/* In the order of the words; none where the model's format says its inputs. */
td_status app_make_specs(const app_inputs *asked, base_arena *arena, td_input_spec **specs, size_t *count,
                         td_error *err);

/* ---- the inputs of one run (feed.c) ---- */

typedef struct app_feed {
  size_t count;
  td_value_info *infos;
  base_value *values;
  bool *given; /* has a value; the others have the model's default */
} app_feed;

/* Values for every input. Those that nothing is given for keep the model's default, or get random data of their
 * declared shape; with `notes`, standard error says so. */
td_status app_feed_make(const app_inputs *asked, base_arena *arena, const td_model *model, bool notes, app_feed *feed,
                        td_error *err);
td_status app_feed_bind(const app_feed *feed, td_session *session, base_arena *arena, td_error *err);

/* ---- what is no number (nan.c) ---- */

/* How many elements, of a list those of its tensors, are NaN. */
int64_t app_count_nan(const base_value *value);
/* Says on standard error which of the results of the model called `name` hold NaN, and whether an input or a weight
 * does. */
void app_note_nan(const char *name, const td_model *model, const app_feed *feed, const char *const *names,
                  const base_value *values, size_t count);
#endif
