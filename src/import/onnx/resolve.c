/* resolve.c -- finds what each node is lowered by, before anything is lowered, so that all that is missing is reported
 * at once. The newest definition that is not newer than the model's operator set counts, be it a row of a table or an
 * alias; a function of the model comes last: what is built in knows better than its expansion. */
#include "import/onnx/state_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operators that are refused on purpose, with the reason. name NULL: the whole domain. */
static const struct {
  const char *domain, *name, *reason;
} refused[] = {
    {"ai.onnx.ml", NULL, "classical machine learning is not supported"},
    {"ai.onnx.training", NULL, "training is not supported"},
    {"ai.onnx.preview.training", NULL, "training is not supported"},
    {"", "ImageDecoder", "decode images before they reach the model"},
    {"", "StringNormalizer", "operators on strings are not supported"},
    {"", "StringConcat", "operators on strings are not supported"},
    {"", "StringSplit", "operators on strings are not supported"},
    {"", "RegexFullMatch", "operators on strings are not supported"},
};

static int compare_names(const char *domain, const char *name, const onnx_lowering *row) {
  int order = strcmp(domain, row->domain);
  return order ? order : strcmp(name, row->name);
}

static int compare_rows(const void *a, const void *b) {
  const onnx_lowering *x = *(const onnx_lowering *const *)a, *y = *(const onnx_lowering *const *)b;
  int order = compare_names(x->domain, x->name, y);
  return order ? order : (x->since > y->since) - (x->since < y->since);
}

static td_status collect_rows(onnx_import *im) {
  uint32_t count = 0, n = 0, family_count;
  const onnx_family *families = onnx_families(&family_count);
  for (uint32_t i = 0; i < family_count; i++) count += *families[i].count;
  im->rows = base_new(im->arena, const onnx_lowering *, (size_t)count + 1);
  if (!im->rows) return base_no_memory(im->err, "lowerings");
  for (uint32_t i = 0; i < family_count; i++)
    for (uint32_t k = 0; k < *families[i].count; k++) im->rows[n++] = &families[i].rows[k];
  qsort(im->rows, count, sizeof *im->rows, compare_rows);
  im->row_count = count;
  return TD_OK;
}

/* The row with the highest `since` <= version. */
static const onnx_lowering *find_row(const onnx_import *im, const char *domain, const char *name, int64_t version) {
  uint32_t low = 0, high = im->row_count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    int order = compare_names(domain, name, im->rows[middle]);
    if (order > 0 || (order == 0 && im->rows[middle]->since <= version)) low = middle + 1;
    else high = middle;
  }
  return low && compare_names(domain, name, im->rows[low - 1]) == 0 ? im->rows[low - 1] : NULL;
}

const char *onnx_cstr(onnx_import *im, base_str s) { return base_arena_slice(im->arena, s.at, s.length); }

static td_status make_key(onnx_import *im, base_str domain, base_str name, base_str overload, base_str *key) {
  *key = base_str_of(base_arena_format(im->arena, "%.*s\x1f%.*s\x1f%.*s", (int)domain.length, domain.at,
                                       (int)name.length, name.at, (int)overload.length, overload.at));
  return key->length ? TD_OK : base_no_memory(im->err, "a name");
}

static td_status index_functions(onnx_import *im) {
  for (uint32_t i = 0; i < im->model.functions.count; i++) {
    const onnx_function *f = &im->model.functions.at[i];
    base_str key;
    bool existed;
    TRY(make_key(im, f->domain, f->name, f->overload, &key));
    if (!base_map_put(&im->functions, im->arena, key, i, &existed)) return base_no_memory(im->err, "functions");
    if (existed)
      return base_fail(im->err, TD_BAD_FILE, im->source->file, -1, "the function \"%.*s\" is defined twice",
                       (int)f->name.length, f->name.at);
  }
  return TD_OK;
}

static bool find_version(const onnx_opsets *opsets, base_str domain, int64_t *version) {
  for (uint32_t i = 0; i < opsets->imports.count; i++) {
    if (!base_str_equal(opsets->imports.at[i].domain, domain)) continue;
    *version = opsets->imports.at[i].version;
    return true;
  }
  return false;
}

static td_status resolve_graph(onnx_import *im, onnx_graph *graph, const onnx_opsets *opsets, uint32_t depth);

static td_status enter_function(onnx_import *im, onnx_function *f, uint32_t depth) {
  if (f->state == ONNX_RESOLVED) return TD_OK;
  if (f->state == ONNX_ENTERED)
    return base_fail(im->err, TD_BAD_FILE, im->source->file, -1, "the function \"%.*s\" calls itself",
                     (int)f->name.length, f->name.at);
  f->state = ONNX_ENTERED;
  TRY(resolve_graph(im, &f->body, &f->opsets, depth + 1));
  f->state = ONNX_RESOLVED;
  return TD_OK;
}

static const char *refusal(const onnx_record *record) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (base_str_is(record->domain, refused[i].domain) &&
        (!refused[i].name || base_str_is(record->op_type, refused[i].name)))
      return refused[i].reason;
  return NULL;
}

static td_status note_missing(onnx_import *im, onnx_record *r) {
  const char *label = r->name.length
                          ? onnx_cstr(im, r->name)
                          : base_arena_format(im->arena, "%.*s_%u", (int)r->op_type.length, r->op_type.at, r->index);
  return label ? onnx_note_missing(im, r, label, refusal(r)) : base_no_memory(im->err, "a name");
}

static td_status resolve_node(onnx_import *im, onnx_record *record, const onnx_opsets *opsets, uint32_t depth) {
  onnx_impl *impl = &record->impl;
  const char *domain = onnx_cstr(im, record->domain), *name = onnx_cstr(im, record->op_type);
  base_str key;
  if (!domain || !name) return base_no_memory(im->err, "a name");
  TRY(make_key(im, record->domain, record->op_type, record->overload, &key));
  impl->version = 1;
  if (!find_version(opsets, record->domain, &impl->version))
    find_version(&im->model.opsets, record->domain, &impl->version);
  impl->row = find_row(im, domain, name, impl->version);
  impl->op = ir_opset_alias(im->graph->ops, *domain ? domain : "onnx", record->op_type, impl->version, &impl->alias);
  if (impl->row && impl->op && impl->alias->since > impl->row->since) impl->row = NULL;
  if (impl->row || impl->op) return TD_OK;
  const uint32_t *function = base_map_get(&im->functions, key);
  if (!function) return note_missing(im, record);
  impl->function = &im->model.functions.at[*function];
  return enter_function(im, impl->function, depth);
}

static td_status resolve_graph(onnx_import *im, onnx_graph *graph, const onnx_opsets *opsets, uint32_t depth) {
  if (depth > ONNX_MAX_DEPTH)
    return base_fail(im->err, TD_BAD_FILE, im->source->file, -1, "functions and graphs are nested more than %d deep",
                     ONNX_MAX_DEPTH);
  for (uint32_t i = 0; i < graph->nodes.count; i++) {
    onnx_record *record = &graph->nodes.at[i];
    TRY(resolve_node(im, record, opsets, depth));
    for (uint32_t k = 0; k < record->attrs.count; k++)
      if (record->attrs.at[k].graph) TRY(resolve_graph(im, record->attrs.at[k].graph, opsets, depth + 1));
  }
  return TD_OK;
}

td_status onnx_resolve(onnx_import *im) {
  TRY(collect_rows(im));
  TRY(index_functions(im));
  TRY(resolve_graph(im, im->model.graph, &im->model.opsets, 0));
  return onnx_report_missing(im);
}
