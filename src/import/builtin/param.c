/* param.c -- the parameters of an architecture: looked up in a state_dict, or made from a seed. */
#include "import/builtin/builtin_priv.h"

#include <stdio.h>
#include <string.h>

/* ---- what does not fit ---- */

enum { LISTED_BYTES = 400 }; /* of each kind; the rest is counted */

static void note(builtin_misfits *misfits, const char *format, ...) BASE_PRINTF(2, 3);
static void note(builtin_misfits *misfits, const char *format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (misfits->text.length <= LISTED_BYTES) base_text_print(&misfits->text, "%s%s", misfits->count ? ", " : "", text);
  else if (!base_str_ends((base_str){misfits->text.at, misfits->text.length}, ", ..."))
    base_text_print(&misfits->text, ", ...");
  misfits->count++;
}

static void say(const builtin_misfits *misfits, const char *what, base_text *text) {
  if (misfits->count == 0) return;
  base_text_print(text, "%s%u %s (%s)", text->length ? "; " : "", misfits->count, what,
                  misfits->text.at ? misfits->text.at : "");
}

/* Counters that batch norm keeps in training mean nothing at inference. */
static bool no_parameter(base_str key) { return base_str_ends(key, ".num_batches_tracked"); }

td_status builtin_check_keys(builtin_net *n) {
  const td_allocator *allocator = base_arena_allocator(n->b.graph->arena);
  builtin_misfits extra = {.text = {.allocator = allocator}};
  base_text all = {.allocator = allocator};
  for (uint32_t i = 0; n->weights && i < n->weights->entries.count; i++) {
    base_str key = n->weights->entries.at[i].name;
    if (!n->used[i] && !no_parameter(key)) note(&extra, "%.*s", (int)base_min_i64((int64_t)key.length, 200), key.at);
  }
  say(&n->missing, "missing", &all);
  say(&n->misshaped, "of another shape or type", &all);
  say(&extra, "superfluous", &all);
  td_status status = TD_OK;
  if (all.length)
    status = base_fail(n->b.err, TD_BAD_FILE, n->source->file, -1, "the weights do not fit builtin:%s: %s",
                       n->source->name, all.at);
  if (all.failed || extra.text.failed || n->missing.text.failed || n->misshaped.text.failed)
    status = base_no_memory(n->b.err, "a list of keys");
  base_text_free(&extra.text);
  base_text_free(&all);
  return status;
}

/* ---- from a state_dict ---- */

static bool same_shape(const base_tensor *t, int32_t rank, const int64_t *dims) {
  if (t->dtype != TD_F32 || t->rank != rank) return false;
  for (int32_t i = 0; i < rank; i++)
    if (t->dims[i] != dims[i]) return false;
  return true;
}

/* Tensors lie in the file, but for those that had to be decoded: they live in the dictionary, which goes away. */
static bool keep(builtin_net *n, base_tensor *t) {
  uintptr_t at = (uintptr_t)t->data, file = (uintptr_t)n->source->weights;
  if (at >= file && at - file < n->source->size) return true;
  void *data = base_arena_alloc_aligned(n->b.graph->arena, base_tensor_bytes(t), 64);
  if (data) base_tensor_pack(data, t);
  *t = base_tensor_of(data, t->dtype, t->rank, t->dims);
  return data != NULL;
}

static void look_up(builtin_net *n, const char *key, const base_tensor *wanted, base_tensor *t) {
  char is[128], should[128];
  const fmt_named *found = fmt_state_dict_find(n->weights, base_str_of(key));
  if (!found) {
    note(&n->missing, "%s", key);
    return;
  }
  n->used[found - n->weights->entries.at] = true;
  if (!same_shape(&found->tensor, wanted->rank, wanted->dims)) {
    note(&n->misshaped, "%s is %s, not %s", key, base_tensor_describe(&found->tensor, is, sizeof is),
         base_tensor_describe(wanted, should, sizeof should));
    return;
  }
  *t = found->tensor;
  if (!keep(n, t)) n->b.status = base_no_memory(n->b.err, key);
}

/* ---- from a seed ---- */

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

/* Values depend on seed and key alone, not on the order in which parameters are asked for. */
static void make_up(builtin_net *n, const char *key, double center, double spread, base_tensor *t) {
  int64_t count = base_tensor_numel(t);
  float *values = base_new(n->b.graph->arena, float, (size_t)count);
  uint64_t state = base_hash(key, strlen(key), n->source->seed);
  if (!values) {
    n->b.status = base_no_memory(n->b.err, key);
    return;
  }
  for (int64_t i = 0; i < count; i++)
    values[i] = (float)(center + spread * ((double)(next_random(&state) >> 11) * 0x1p-52 - 1));
  *t = base_tensor_of(values, t->dtype, t->rank, t->dims);
}

ir_value builtin_param(builtin_net *n, const char *key, int32_t rank, const int64_t *dims, double center,
                       double spread) {
  static const float stand_in;
  ir_value value = IR_NO_VALUE;
  if (n->b.status != TD_OK) return value;
  base_tensor wanted = base_tensor_of((void *)(uintptr_t)&stand_in, TD_F32, rank, dims), t = wanted;
  memset(t.strides, 0, sizeof t.strides);
  if (n->weights) look_up(n, key, &wanted, &t);
  else make_up(n, key, center, spread, &t);
  if (n->b.status == TD_OK) n->b.status = ir_add_constant(n->b.graph, &t, key, &value, n->b.err);
  return value;
}
