/* keep.c -- inputs and outputs of a graph that become session state, as td_load_options.state names them: the caches of
 * a decoder, which its file has as inputs (past) and outputs (present).
 *
 *     TEXT = PAIRS [SIZE...];  PAIRS = "auto", or INPUT=OUTPUT,...;  SIZE = NAME=NUMBER
 *
 * A name may have one `*`, which then stands for the same on both sides. All pairs are found and checked before the
 * graph is changed. */
#include "import/import.h"

#include <string.h>

/* What exporters call caches: Hugging Face's optimum; ONNX Runtime's tools and other exporters. */
static const char conventions[] = "past_key_values.*=present.*,past_*=present_*,past.*=present.*";

typedef struct pair {
  ir_value input, output;
  const char *name, *next; /* of the input, of the output */
} pair;

typedef struct keeping {
  ir_graph *g;
  BASE_VEC(pair) pairs;
  int64_t *sizes; /* per symbol: at first; negative: not known */
  bool may_lack;  /* outputs that a convention names need not be there */
  td_error *err;
} keeping;

/* ---- texts ---- */

static td_status misspelt(const keeping *k, base_str text) {
  return base_fail(k->err, TD_BAD_ARGUMENT, NULL, -1,
                   "'%.*s' says no state: write auto or INPUT=OUTPUT,..., then sizes, as in "
                   "past_key_values.*=present.* batch=1",
                   (int)text.length, text.at);
}

/* The names of inputs or outputs, for messages; the text is the caller's to free. */
static base_text list_names(const keeping *k, bool inputs) {
  base_text names = {.allocator = base_arena_allocator(k->g->arena)};
  const ir_block_def *top = ir_block_of(k->g, k->g->top);
  const uint32_t count = inputs ? k->g->input_defaults.count : k->g->output_names.count;
  for (uint32_t i = 0; i < count; i++) {
    const char *name = inputs ? ir_value_of(k->g, top->params.at[i])->name : k->g->output_names.at[i];
    if (name) base_text_print(&names, "%s%s", names.length ? ", " : "", name);
  }
  return names;
}

/* ---- pairs ---- */

/* Does the pattern fit? *wild: what its `*` stands for. */
static bool fits(base_str pattern, base_str name, base_str *wild) {
  base_str behind = pattern;
  const base_str before = base_str_cut(&behind, '*');
  const bool open = before.length < pattern.length;
  if (!open) return *wild = (base_str){"", 0}, base_str_equal(pattern, name);
  if (name.length < before.length + behind.length) return false;
  *wild = (base_str){name.at + before.length, name.length - before.length - behind.length};
  return memcmp(name.at, before.at, before.length) == 0 &&
         memcmp(wild->at + wild->length, behind.at, behind.length) == 0;
}

static const pair *pair_of(const keeping *k, ir_value input) {
  for (uint32_t i = 0; i < k->pairs.count; i++)
    if (k->pairs.at[i].input.id == input.id) return &k->pairs.at[i];
  return NULL;
}

static bool same_types(const ir_type *a, const ir_type *b) {
  if (a->kind != IR_TENSOR || b->kind != IR_TENSOR || a->dtype != b->dtype || a->rank < 0) return false;
  if (b->rank >= 0 && a->rank != b->rank) return false;
  for (int32_t i = 0; i < b->rank; i++)
    if (base_dim_known(a->dims[i]) && base_dim_known(b->dims[i]) && a->dims[i] != b->dims[i]) return false;
  return true;
}

static td_status check_types(const keeping *k, const pair *p) {
  const ir_type *a = ir_type_of(k->g, p->input), *b = ir_type_of(k->g, p->output);
  if (same_types(a, b)) return TD_OK;
  base_text before = {.allocator = base_arena_allocator(k->g->arena)}, after = before;
  ir_type_print(&k->g->dims, a, &before);
  ir_type_print(&k->g->dims, b, &after);
  const td_status status =
      base_fail(k->err, TD_BAD_ARGUMENT, p->name, -1,
                "input %s is %s and output %s is %s: as one state they need the same element type and rank", p->name,
                before.at ? before.at : "?", p->next, after.at ? after.at : "?");
  base_text_free(&before);
  base_text_free(&after);
  return status;
}

/* The input becomes state that output `next` renews. */
static td_status add_pair(keeping *k, ir_value input, const char *next) {
  const ir_block_def *top = ir_block_of(k->g, k->g->top);
  const char *name = ir_value_of(k->g, input)->name;
  uint32_t i = 0;
  while (i < k->g->output_names.count && strcmp(k->g->output_names.at[i], next) != 0) i++;
  if (i == k->g->output_names.count) {
    if (k->may_lack) return TD_OK;
    base_text names = list_names(k, false);
    const td_status status =
        base_fail(k->err, TD_BAD_ARGUMENT, name, -1, "input %s cannot be state: no output is called %s; there are: %s",
                  name, next, names.at ? names.at : "none");
    base_text_free(&names);
    return status;
  }
  const ir_value output = top->results.at[i];
  for (uint32_t n = 0; n < k->pairs.count; n++)
    if (strcmp(k->pairs.at[n].next, next) == 0)
      return base_fail(k->err, TD_BAD_ARGUMENT, name, -1, "output %s cannot renew both inputs %s and %s", next,
                       k->pairs.at[n].name, name);
  pair *to = base_vec_push(k->g->arena, &k->pairs);
  if (!to) return base_no_memory(k->err, "session state");
  *to = (pair){.input = input, .output = output, .name = name, .next = next};
  return check_types(k, to);
}

/* INPUT=OUTPUT: every input that it fits. */
static td_status add_pairs(keeping *k, base_str text) {
  const ir_block_def *top = ir_block_of(k->g, k->g->top);
  base_str to = text, wild;
  const base_str from = base_str_cut(&to, '=');
  base_str behind = to, rest = from;
  const base_str before = base_str_cut(&behind, '*');
  base_str_cut(&rest, '*');
  const bool open = before.length < to.length, twice = memchr(behind.at, '*', behind.length) != NULL;
  if (!from.length || !to.length || open != (memchr(from.at, '*', from.length) != NULL) || twice ||
      memchr(rest.at, '*', rest.length))
    return misspelt(k, text);
  bool any = k->may_lack;
  for (uint32_t i = 0; i < k->g->input_defaults.count; i++) {
    const ir_value input = top->params.at[i];
    const char *name = ir_value_of(k->g, input)->name;
    if (!name || !fits(from, base_str_of(name), &wild)) continue;
    any = true;
    if (pair_of(k, input)) continue;
    const char *next = base_arena_format(k->g->arena, "%.*s%.*s%.*s", (int)before.length, before.at, (int)wild.length,
                                         wild.at, (int)behind.length, behind.at);
    if (!next) return base_no_memory(k->err, "session state");
    TRY(add_pair(k, input, next));
  }
  if (any) return TD_OK;
  base_text names = list_names(k, true);
  const td_status status =
      base_fail(k->err, TD_BAD_ARGUMENT, NULL, -1, "no input is called %.*s, which is to be state; there are: %s",
                (int)from.length, from.at, names.at ? names.at : "none");
  base_text_free(&names);
  return status;
}

static td_status find_pairs(keeping *k, base_str text) {
  k->may_lack = base_str_is(text, "auto");
  if (k->may_lack) text = base_str_of(conventions);
  if (!text.length) return misspelt(k, text);
  while (text.length) TRY(add_pairs(k, base_str_cut(&text, ',')));
  if (k->pairs.count) return TD_OK;
  base_text names = list_names(k, true);
  const td_status status = base_fail(k->err, TD_BAD_ARGUMENT, NULL, -1,
                                     "no input and output are called as caches are (%s): say INPUT=OUTPUT,...; the "
                                     "inputs are: %s",
                                     conventions, names.at ? names.at : "none");
  base_text_free(&names);
  return status;
}

/* ---- sizes ---- */

static bool has_size(const ir_type *type, base_dim size) {
  for (int32_t i = 0; i < type->rank; i++)
    if (type->dims[i] == size) return true;
  return false;
}

/* The number of a plain symbol. */
static bool symbol_of(const ir_graph *g, base_dim size, uint32_t *symbol) {
  const char *name = base_dim_symbol_name(&g->dims, size);
  *symbol = 0;
  while (name && strcmp(g->dims.symbols.at[*symbol].name, name) != 0) ++*symbol;
  return name != NULL;
}

/* NAME=NUMBER, of a size that some state has. */
static td_status read_size(keeping *k, base_str text) {
  base_str value = text;
  const base_str name = base_str_cut(&value, '=');
  base_text names = {.allocator = base_arena_allocator(k->g->arena)};
  int64_t number;
  if (!name.length || !base_str_int(value, &number) || number < 0) return misspelt(k, text);
  for (uint32_t i = 0; i < k->pairs.count; i++) {
    const ir_type *type = ir_type_of(k->g, k->pairs.at[i].input);
    for (int32_t d = 0; d < type->rank; d++) {
      uint32_t symbol;
      if (!symbol_of(k->g, type->dims[d], &symbol)) continue;
      const char *own = k->g->dims.symbols.at[symbol].name;
      if (base_str_is(name, own)) {
        k->sizes[symbol] = number;
        base_text_free(&names);
        return TD_OK;
      }
      if (!names.at || !strstr(names.at, own)) base_text_print(&names, "%s%s", names.at ? ", " : "", own);
    }
  }
  const td_status status =
      base_fail(k->err, TD_BAD_ARGUMENT, NULL, -1, "no state has a size called %.*s; there are: %s", (int)name.length,
                name.at, names.at ? names.at : "none, all are fixed");
  base_text_free(&names);
  return status;
}

/* Is it a size of what a run still has to be given? */
static bool is_given(const keeping *k, base_dim size) {
  const ir_block_def *top = ir_block_of(k->g, k->g->top);
  for (uint32_t i = 0; i < k->g->input_defaults.count; i++) {
    const ir_value input = top->params.at[i];
    if (!pair_of(k, input) && has_size(ir_type_of(k->g, input), size)) return true;
  }
  return false;
}

/* What a size begins with that nobody has named: 1 sample; 0 rows of what grows. */
static td_status find_size(keeping *k, const pair *p, int32_t axis, int64_t *size) {
  const ir_type *after = ir_type_of(k->g, p->output);
  const base_dim d = ir_type_of(k->g, p->input)->dims[axis];
  uint32_t symbol;
  if (base_dim_eval(&k->g->dims, d, k->sizes, size) && *size >= 0) return TD_OK;
  const bool plain = symbol_of(k->g, d, &symbol), given = is_given(k, d);
  if (!plain || (!given && has_size(after, d)))
    return base_fail(k->err, TD_BAD_ARGUMENT, p->name, -1,
                     "state %s keeps the size of its dimension %d%s%s: say which, as in %s=1024", p->name, axis,
                     plain ? ", " : "", plain ? k->g->dims.symbols.at[symbol].name : "",
                     plain ? k->g->dims.symbols.at[symbol].name : "SIZE");
  *size = k->sizes[symbol] = given;
  return TD_OK;
}

/* ---- the graph ---- */

/* Zeros: one element, however many there are, where a type allows that. */
static td_status add_zeros(keeping *k, const pair *p, const int64_t *dims, ir_value *value) {
  const ir_type *type = ir_type_of(k->g, p->input);
  const bool one = type->dtype != TD_STRING && base_dtype(type->dtype)->bits >= 8;
  int64_t count;
  size_t bytes;
  if (!base_numel(type->rank, dims, &count) || !base_dtype_bytes(type->dtype, count, &bytes))
    return base_fail(k->err, TD_BAD_ARGUMENT, p->name, -1, "the size of state %s overflows", p->name);
  void *data = base_arena_alloc(k->g->arena, one || !bytes ? sizeof(td_string) : bytes);
  if (!data) return base_no_memory(k->err, "session state");
  base_tensor zeros = base_tensor_of(data, type->dtype, type->rank, dims);
  if (one && count > 1) memset(zeros.strides, 0, sizeof zeros.strides);
  return ir_add_constant(k->g, &zeros, NULL, value, k->err);
}

static td_status keep(keeping *k, const pair *p) {
  const ir_block_def *top = ir_block_of(k->g, k->g->top);
  uint32_t input = 0, output = 0;
  int64_t dims[BASE_MAX_RANK];
  while (top->params.at[input].id != p->input.id) input++;
  while (strcmp(k->g->output_names.at[output], p->next) != 0) output++;
  ir_initial initial = {.value = k->g->input_defaults.at[input]};
  for (int32_t i = 0; !initial.value.id && i < ir_type_of(k->g, p->input)->rank; i++) TRY(find_size(k, p, i, &dims[i]));
  if (!initial.value.id) TRY(add_zeros(k, p, dims, &initial.value));
  return ir_keep_input(k->g, input, output, &initial, k->err);
}

td_status import_keep_state(ir_graph *graph, const char *text, td_error *err) {
  keeping k = {.g = graph, .err = err};
  base_str left = base_str_of(text), first = base_str_cut(&left, ' ');
  TRY(find_pairs(&k, first));
  if (!(k.sizes = base_new(graph->arena, int64_t, graph->dims.symbols.count + 1)))
    return base_no_memory(err, "session state");
  for (uint32_t i = 0; i < graph->dims.symbols.count; i++) k.sizes[i] = -1;
  while (left.length) {
    const base_str size = base_str_cut(&left, ' ');
    if (size.length) TRY(read_size(&k, size));
  }
  for (uint32_t i = 0; i < k.pairs.count; i++) TRY(keep(&k, &k.pairs.at[i]));
  return TD_OK;
}
