/* feed.c -- the inputs of a run: what words of the user give, and made-up data for the rest.
 *
 * An open dimension that carries a name has one size in all inputs: the size that --shape or some given value says,
 * else 1 (or --batch, where it is the first). */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/feed.h"
#include "common/print.h"
#include "common/session.h"
#include "common/values.h"

typedef struct feed_maker {
  const app_inputs *asked;
  base_arena *arena;
  const td_model *model;
  app_feed *feed;
  bool *shaped;     /* per input: --shape gave its dimensions, now in infos */
  int64_t rate;     /* of the last sound among the inputs, samples a second; 0: there is none */
  base_map symbols; /* name -> position in sizes */
  BASE_VEC(int64_t) sizes;
} feed_maker;

static td_status start(feed_maker *m, td_error *err) {
  app_feed *feed = m->feed;
  base_arena *arena = m->arena;
  feed->count = td_model_input_count(m->model);
  feed->infos = base_new(arena, td_value_info, feed->count + 1);
  feed->values = base_new(arena, base_value, feed->count + 1);
  feed->given = base_new(arena, bool, feed->count + 1);
  m->shaped = base_new(arena, bool, feed->count + 1);
  if (!feed->infos || !feed->values || !feed->given || !m->shaped) return base_no_memory(err, "inputs");
  for (size_t i = 0; i < feed->count; i++) {
    feed->infos[i].size = sizeof feed->infos[i];
    TRY(td_model_input(m->model, i, &feed->infos[i], err));
  }
  return TD_OK;
}

/* Splits NAME=REST where NAME is an input; names and file names may themselves hold '='. */
static bool split_name(const app_feed *feed, const char *text, size_t *index, const char **rest) {
  for (const char *at = strchr(text, '='); at; at = strchr(at + 1, '=')) {
    base_str name = {text, (size_t)(at - text)};
    for (size_t i = 0; i < feed->count; i++) {
      if (!base_str_is(name, feed->infos[i].name)) continue;
      *index = i;
      *rest = at + 1;
      return true;
    }
  }
  return false;
}

/* The library's error for a name that is none: it lists those there are. */
static td_status unknown_name(const feed_maker *m, const char *text, td_error *err) {
  char *name = base_arena_slice(m->arena, text, strcspn(text, "="));
  size_t index;
  if (!name) return base_no_memory(err, "a name");
  td_status status = td_model_find_input(m->model, name, &index, err);
  return status == TD_OK ? base_fail(err, TD_BAD_ARGUMENT, name, -1, "is given without a value") : status;
}

static td_status next_open(const feed_maker *m, const char *text, size_t *index, td_error *err) {
  for (*index = 0; *index < m->feed->count; ++*index) {
    if (!m->feed->given[*index]) return TD_OK;
  }
  return base_fail(err, TD_BAD_ARGUMENT, text, -1, "the model has %zu inputs, and all have a value", m->feed->count);
}

/* A list takes the items of each --input that it is given. */
static td_status give_more(feed_maker *m, size_t index, const base_list *more, td_error *err) {
  base_list *list = &m->feed->values[index].list;
  base_value *items = base_new(m->arena, base_value, (size_t)(list->count + more->count));
  if (!items) return base_no_memory(err, "a list");
  memcpy(items, list->items, sizeof *items * (size_t)list->count);
  memcpy(items + list->count, more->items, sizeof *items * (size_t)more->count);
  *list = (base_list){.items = items, .count = list->count + more->count};
  return TD_OK;
}

static td_status give(feed_maker *m, size_t index, const base_value *value, td_error *err) {
  const td_value_info *info = &m->feed->infos[index];
  const base_tensor *t = &value->tensor;
  if (m->feed->given[index] && value->kind == BASE_LIST && m->feed->values[index].kind == BASE_LIST)
    return give_more(m, index, &value->list, err);
  if (m->feed->given[index]) return base_fail(err, TD_BAD_ARGUMENT, info->name, -1, "the input is given twice");
  if (m->shaped[index] && value->kind == BASE_TENSOR &&
      (t->rank != info->rank || memcmp(t->dims, info->dims, sizeof *t->dims * (size_t)t->rank) != 0)) {
    char text[256];
    return base_fail(err, TD_BAD_ARGUMENT, info->name, -1,
                     "--input gives %s: the input has its shape already, by --shape",
                     base_tensor_describe(t, text, sizeof text));
  }
  m->feed->values[index] = *value;
  m->feed->given[index] = true;
  return TD_OK;
}

/* A file without NAME=: one value goes to the next input, named ones go where their names say. */
static td_status give_unnamed(feed_maker *m, const char *path, const app_named_vec *found, size_t next, td_error *err) {
  if (found->count == 1 && !found->at[0].name[0]) return give(m, next, &found->at[0].value, err);
  for (uint32_t i = 0; i < found->count; i++) {
    size_t index;
    td_status status = td_model_find_input(m->model, found->at[i].name, &index, err);
    if (status != TD_OK && found->count == 1) return give(m, next, &found->at[0].value, err);
    if (status != TD_OK) return base_error_name(err, status, "%s", path);
    TRY(give(m, index, &found->at[i].value, err));
  }
  return TD_OK;
}

/* NAME=FILE: the file's only value, or the one that has the input's name. */
static td_status give_named(feed_maker *m, const char *path, const app_named_vec *found, size_t index, td_error *err) {
  const char *name = m->feed->infos[index].name;
  for (uint32_t i = 0; i < found->count; i++) {
    if (found->count == 1 || strcmp(found->at[i].name, name) == 0) return give(m, index, &found->at[i].value, err);
  }
  return base_fail(err, TD_BAD_ARGUMENT, path, -1, "holds %u values, none of them called %s", found->count, name);
}

/* How pictures become inputs, unless --preprocess says: what a built-in model was trained with, or ImageNet's usual
 * way. */
static const char *preset_of(const app_inputs *asked) {
  static const struct { const char *model, *preset; } trained[] = {{"builtin:efficientnet_lite", "efficientnet_lite"}};
  if (asked->preprocess) return asked->preprocess;
  for (size_t i = 0; i < sizeof trained / sizeof *trained; i++) {
    if (base_str_starts(base_str_of(asked->model), trained[i].model)) return trained[i].preset;
  }
  return "imagenet";
}

/* Of inputs made of one list, "images" and "images_1", the first that has no value. */
static size_t next_of_list(const app_feed *feed, size_t index) {
  const size_t length = strlen(feed->infos[index].name);
  for (size_t i = index; i < feed->count; i++) {
    const char *name = feed->infos[i].name;
    if (i > index && (strncmp(name, feed->infos[index].name, length) != 0 || name[length] != '_')) break;
    if (!feed->given[i]) return i;
  }
  return index;
}

static td_status take_input(feed_maker *m, const char *text, td_error *err) {
  size_t index = 0;
  const char *rest = text;
  bool named = split_name(m->feed, text, &index, &rest);
  if (!named && strchr(text, '=') && access(text, F_OK) != 0) return unknown_name(m, text, err);
  if (!named) TRY(next_open(m, text, &index, err));
  else index = next_of_list(m->feed, index);
  base_value value;
  bool is_description;
  TRY(app_describe_value(base_str_of(rest), m->asked->seed, m->arena, &value, &is_description, err));
  if (is_description) return give(m, index, &value, err);
  app_named_vec found = {0};
  app_read_how how = {m->arena, &m->feed->infos[index], preset_of(m->asked)};
  TRY(app_read_values(rest, &how, &found, err));
  if (found.count == 1 && found.at[0].rate) m->rate = found.at[0].rate;
  return named ? give_named(m, rest, &found, index, err) : give_unnamed(m, rest, &found, index, err);
}

static td_status set_symbol(feed_maker *m, base_str name, int64_t size, td_error *err) {
  if (base_map_get(&m->symbols, name)) return TD_OK;
  int64_t *to = base_vec_push(m->arena, &m->sizes);
  if (!to || !base_map_put(&m->symbols, m->arena, name, m->sizes.count - 1, NULL))
    return base_no_memory(err, "dimensions");
  *to = size;
  return TD_OK;
}

/* NAME=SIZE of an open dimension: that size in all inputs. False in *is where no dimension has the name. */
static td_status take_size(feed_maker *m, const char *text, bool *is, td_error *err) {
  const base_str name = {text, strcspn(text, "=")};
  int64_t size;
  *is = false;
  if (!text[name.length] || !base_str_int(base_str_of(text + name.length + 1), &size) || size < 0) return TD_OK;
  for (size_t i = 0; i < m->feed->count; i++)
    for (int32_t k = 0; k < m->feed->infos[i].rank; k++) {
      const char *symbol = m->feed->infos[i].symbols[k];
      *is |= symbol && base_str_is(name, symbol);
    }
  return *is ? set_symbol(m, name, size, err) : TD_OK;
}

static td_status take_shape(feed_maker *m, const char *text, td_error *err) {
  size_t index;
  const char *rest;
  bool is_size = false;
  if (!split_name(m->feed, text, &index, &rest)) {
    TRY(take_size(m, text, &is_size, err));
    return is_size ? TD_OK : unknown_name(m, text, err);
  }
  td_value_info *info = &m->feed->infos[index];
  int32_t rank;
  int64_t dims[TD_MAX_RANK];
  const char *symbols[TD_MAX_RANK];
  const base_str sizes = {rest, strcspn(rest, ":")}; /* a type behind it is for specs.c */
  TRY(app_open_dims(sizes, m->arena, &rank, dims, symbols, err));
  const char *type = rest + sizes.length + (rest[sizes.length] == ':');
  if (app_part_of_complex(base_str_of(type)) != TD_INVALID && rank < TD_MAX_RANK) dims[rank++] = 2; /* the parts */
  bool fits = info->rank < 0 || info->rank == rank, open = false;
  for (int32_t i = 0; i < rank; i++) open = open || dims[i] < 0;
  for (int32_t i = 0; fits && i < info->rank; i++)
    fits = info->dims[i] < 0 || info->dims[i] == dims[i] || (dims[i] < 0 && m->shaped[index]);
  if (fits && open) return TD_OK; /* what may be of any size is 1, or what --input or another --shape says */
  if (fits && m->shaped[index]) {
    return base_fail(err, TD_BAD_ARGUMENT, info->name, -1, "--shape %s: the input has its shape already", rest);
  }
  if (!fits) {
    char declared[512];
    return base_fail(err, TD_BAD_ARGUMENT, info->name, -1, "--shape %s does not fit what the model declares, %s", rest,
                     app_info_text(info, declared, sizeof declared));
  }
  info->rank = rank;
  memcpy(info->dims, dims, sizeof(int64_t) * (size_t)rank);
  m->shaped[index] = true;
  return TD_OK;
}

/* Remembers the sizes that one input gives to named open dimensions. */
static td_status learn_symbols(feed_maker *m, const td_value_info *info, int32_t rank, const int64_t *dims,
                               td_error *err) {
  for (int32_t i = 0; i < rank && i < info->rank; i++) {
    if (info->symbols[i]) TRY(set_symbol(m, base_str_of(info->symbols[i]), dims[i], err));
  }
  return TD_OK;
}

static int64_t open_size(const feed_maker *m, const td_value_info *info, int32_t dim) {
  const uint32_t *known = info->symbols[dim] ? base_map_get(&m->symbols, base_str_of(info->symbols[dim])) : NULL;
  if (known) return m->sizes.at[*known];
  return dim == 0 && m->asked->batch ? m->asked->batch : 1;
}

static td_status make_up(feed_maker *m, size_t index, bool notes, td_error *err) {
  td_value_info *info = &m->feed->infos[index];
  base_value *value = &m->feed->values[index];
  *value = (base_value){.kind = BASE_NOTHING};
  if (strcmp(info->kind, "optional") == 0) return TD_OK;
  if (strcmp(info->kind, "tensor") != 0 || info->rank < 0) {
    return base_fail(err, TD_BAD_ARGUMENT, info->name, -1, "the input is %s: give it with --input",
                     strcmp(info->kind, "tensor") == 0 ? "of no fixed rank" : "a list");
  }
  int64_t dims[TD_MAX_RANK], count;
  size_t bytes;
  for (int32_t i = 0; i < info->rank; i++) dims[i] = info->dims[i] >= 0 ? info->dims[i] : open_size(m, info, i);
  if (!base_numel(info->rank, dims, &count) || !base_dtype_bytes(info->dtype, count, &bytes)) {
    return base_fail(err, TD_BAD_ARGUMENT, info->name, -1, "the input has too many elements");
  }
  void *data = base_arena_alloc_aligned(m->arena, bytes ? bytes : 1, 64);
  if (!data) return base_no_memory(err, info->name);
  *value = (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of(data, info->dtype, info->rank, dims)};
  uint64_t seed = base_hash(info->name, strlen(info->name), m->asked->seed);
  TRY(base_error_name(err, app_fill_random(&value->tensor, seed, err), "%s", info->name));
  char text[256];
  if (notes) {
    app_note("%s: input %s: random %s, as no --input gives it", m->asked->model, info->name,
             base_tensor_describe(&value->tensor, text, sizeof text));
  }
  return TD_OK;
}

/* Model files do not say at which rate a sound was sampled; some models have an input that does. */
static td_status check_rate(const feed_maker *m, bool notes, td_error *err) {
  static const char *const rates[] = {"sr", "rate", "sample_rate", "sampling_rate"};
  if (!m->rate) return TD_OK;
  for (size_t i = 0; i < m->feed->count; i++) {
    const char *name = m->feed->infos[i].name;
    const base_tensor *t = &m->feed->values[i].tensor;
    size_t k = 0;
    while (k < sizeof rates / sizeof *rates && strcmp(rates[k], name) != 0) k++;
    if (k == sizeof rates / sizeof *rates || !m->feed->given[i] || m->feed->values[i].kind != BASE_TENSOR) continue;
    if (t->dtype == TD_STRING || base_tensor_numel(t) != 1) continue;
    const double said = base_load_f64(t->dtype, t->data, 0);
    if (said == (double)m->rate) return TD_OK;
    return base_fail(err, TD_BAD_ARGUMENT, name, -1,
                     "says %.0f samples a second, and the sound has %lld: resample it, as with `sox IN.wav -r %.0f "
                     "OUT.wav`, or give the rate it has",
                     said, (long long)m->rate, said);
  }
  if (notes)
    app_note("%s: the sound has %lld samples a second, as the model must expect it", m->asked->model,
             (long long)m->rate);
  return TD_OK;
}

/* --batch means something only where a first dimension is open. */
static td_status check_batch(const feed_maker *m, td_error *err) {
  if (m->asked->batch <= 1) return TD_OK;
  for (size_t i = 0; i < m->feed->count; i++) {
    if (m->feed->infos[i].rank > 0 && (m->feed->infos[i].dims[0] < 0 || m->feed->infos[i].dims[0] == m->asked->batch)) {
      return TD_OK;
    }
  }
  return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--batch %lld: the first dimension of every input is fixed",
                   (long long)m->asked->batch);
}

td_status app_feed_make(const app_inputs *asked, base_arena *arena, const td_model *model, bool notes, app_feed *feed,
                        td_error *err) {
  feed_maker m = {.asked = asked, .arena = arena, .model = model, .feed = feed};
  TRY(start(&m, err));
  /* shapes first: they say how large a picture becomes */
  for (uint32_t i = 0; i < asked->shapes.count; i++) TRY(take_shape(&m, asked->shapes.at[i], err));
  for (uint32_t i = 0; i < asked->values.count; i++) TRY(take_input(&m, asked->values.at[i], err));
  TRY(check_batch(&m, err));
  TRY(check_rate(&m, notes, err));
  for (size_t i = 0; i < feed->count; i++) {
    const base_tensor *t = &feed->values[i].tensor;
    if (feed->given[i] && feed->values[i].kind == BASE_TENSOR) {
      TRY(learn_symbols(&m, &feed->infos[i], t->rank, t->dims, err));
    } else if (m.shaped[i]) {
      TRY(learn_symbols(&m, &feed->infos[i], feed->infos[i].rank, feed->infos[i].dims, err));
    }
  }
  for (size_t i = 0; i < feed->count; i++) {
    if (feed->given[i] || (feed->infos[i].has_default && !m.shaped[i])) continue;
    TRY(make_up(&m, i, notes, err));
    feed->given[i] = true;
  }
  return TD_OK;
}

td_status app_feed_bind(const app_feed *feed, td_session *session, base_arena *arena, td_error *err) {
  for (size_t i = 0; i < feed->count; i++) {
    if (!feed->given[i]) continue;
    TRY(base_error_name(err, app_bind(session, i, &feed->values[i], arena, err), "%s", feed->infos[i].name));
  }
  return TD_OK;
}
