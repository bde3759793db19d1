/* parse.c -- the text form back into a graph: a line is a statement, a recursive descent over its words. Errors carry
 * the byte offset. The text is not trusted: depth, counts and numbers are checked, sizes by the functions that build.
 */
#include "ir/graph.h"
#include "base/size.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 32, MAX_LIST = 1 << 20 };

typedef struct parser {
  ir_graph *g;
  const char *text, *at, *end;
  const ir_segment *segments;
  uint32_t segment_count;
  base_map values; /* "%3" to value id */
  td_error *err;
} parser;

typedef BASE_VEC(ir_value) value_list;
typedef BASE_VEC(ir_type) type_list;
typedef BASE_VEC(base_arg) arg_list;
typedef BASE_VEC(base_str) word_list;

static td_status wrong(parser *p, const char *expected) {
  if (base_arena_failed(p->g->arena)) return base_no_memory(p->err, "a graph");
  return base_fail(p->err, TD_BAD_FILE, NULL, p->at - p->text, "graph text: expected %s", expected);
}

/* What stands behind "//" on a line is for people. */
static void skip(parser *p) {
  for (;;) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')) p->at++;
    if (p->end - p->at < 2 || p->at[0] != '/' || p->at[1] != '/') return;
    while (p->at < p->end && *p->at != '\n') p->at++;
  }
}

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == ':' ||
         c == '%' || c == '.';
}

static bool eat(parser *p, const char *token) {
  size_t n = strlen(token);
  skip(p);
  if ((size_t)(p->end - p->at) < n || memcmp(p->at, token, n) != 0) return false;
  bool word = is_word(token[n - 1]) && token[n - 1] != ':';
  if (word && p->at + n < p->end && is_word(p->at[n])) return false;
  p->at += n;
  return true;
}

static td_status need(parser *p, const char *token) { return eat(p, token) ? TD_OK : wrong(p, token); }

static base_str word(parser *p) {
  skip(p);
  const char *start = p->at;
  while (p->at < p->end && is_word(*p->at)) p->at++;
  while (p->at > start && p->at[-1] == ':') p->at--; /* "%3:" is %3 and a colon */
  return (base_str){start, (size_t)(p->at - start)};
}

static td_status quoted(parser *p, char **text, size_t *length) {
  TRY(need(p, "\""));
  *text = base_text_unquote(p->g->arena, &p->at, p->end, length);
  if (*text) return TD_OK;
  return base_arena_failed(p->g->arena) ? base_no_memory(p->err, "graph text") : wrong(p, "a closing quote");
}

/* A number's characters, NUL-terminated in `buffer`: a sign stands in front or in an exponent. */
static td_status number_text(parser *p, char *buffer, size_t size) {
  skip(p);
  size_t n = 0;
  for (; p->at < p->end && n + 1 < size; p->at++) {
    bool sign = *p->at == '-' || *p->at == '+';
    if (sign ? n && buffer[n - 1] != 'e' && buffer[n - 1] != 'E' : !is_word(*p->at)) break;
    buffer[n++] = *p->at;
  }
  buffer[n] = 0;
  return n ? TD_OK : wrong(p, "a number");
}

static td_status integer(parser *p, int64_t *value) {
  char buffer[32], *stop;
  TRY(number_text(p, buffer, sizeof buffer));
  errno = 0;
  *value = buffer[0] == '-' ? strtoll(buffer, &stop, 10) : (int64_t)strtoull(buffer, &stop, 10);
  return *stop || errno ? wrong(p, "an integer") : TD_OK;
}

static td_status real(parser *p, double *value) {
  char buffer[64], *stop;
  TRY(number_text(p, buffer, sizeof buffer));
  *value = strtod(buffer, &stop);
  return *stop ? wrong(p, "a number") : TD_OK;
}

/* ---- types ---- */

static td_status parse_type(parser *p, ir_type *type, int depth);

/* What a kind of value that is no tensor may have in brackets. */
typedef struct holder {
  const char *name;
  ir_kind kind;
  uint32_t least, most; /* elements */
  bool bare;            /* the brackets may be left out */
} holder;

static const holder holders[] = {
    {"list", IR_LIST, 1, 1, true},           {"optional", IR_OPTIONAL, 1, 1, true},  {"future", IR_FUTURE, 1, 1, true},
    {"dict", IR_DICT, 2, 2, true},           {"none", IR_NONE, 0, 0, true},          {"int", IR_INT, 0, 0, true},
    {"float", IR_FLOAT, 0, 0, true},         {"bool", IR_BOOL, 0, 0, true},          {"str", IR_STR, 0, 0, true},
    {"tuple", IR_TUPLE, 0, MAX_LIST, false}, {"class", IR_CLASS, 0, MAX_LIST, false}};

typedef BASE_VEC(const char *) name_list;

/* One element: "name": type, or type alone; all elements are of one sort. */
static td_status parse_elem(parser *p, const holder *h, type_list *elems, name_list *names, int depth) {
  skip(p);
  if (p->at < p->end && *p->at == '"') {
    char *label;
    size_t length;
    if (names->count != elems->count || (h->kind != IR_TUPLE && h->kind != IR_CLASS)) return wrong(p, "a type");
    TRY(quoted(p, &label, &length));
    TRY(need(p, ":"));
    const char **to = base_vec_push(p->g->arena, names);
    if (!to) return base_no_memory(p->err, "graph text");
    *to = label;
  } else if (names->count || h->kind == IR_CLASS) {
    return wrong(p, "a name in quotes");
  }
  ir_type *to = base_vec_push(p->g->arena, elems);
  if (!to) return base_no_memory(p->err, "graph text");
  ir_type elem; /* the list may move while it is read */
  TRY(parse_type(p, &elem, depth + 1));
  elems->at[elems->count - 1] = elem;
  return TD_OK;
}

static td_status parse_holder(parser *p, const holder *h, ir_type *type, int depth) {
  type_list elems = {0};
  name_list names = {0};
  *type = (ir_type){.kind = h->kind};
  if (h->kind == IR_CLASS) {
    char *name;
    size_t length;
    TRY(quoted(p, &name, &length));
    type->name = name;
  }
  if (!h->most) return TD_OK;
  if (!eat(p, "(")) return h->bare ? TD_OK : wrong(p, "(");
  while (!eat(p, ")")) {
    if (elems.count == h->most || (elems.count && !eat(p, ","))) return wrong(p, ") or another element");
    TRY(parse_elem(p, h, &elems, &names, depth));
  }
  if (elems.count < h->least) return wrong(p, "the types that it holds");
  type->elem = elems.at;
  type->names = names.at;
  if (h->kind == IR_TUPLE || h->kind == IR_CLASS) type->count = elems.count;
  return TD_OK;
}

static td_status parse_type(parser *p, ir_type *type, int depth) {
  if (depth > MAX_DEPTH) return wrong(p, "a type that is nested less deeply");
  base_str name = word(p);
  bool tensor = p->at < p->end && *p->at == '['; /* "bool[2]" is one, "bool" is none */
  for (size_t i = 0; !tensor && i < sizeof holders / sizeof *holders; i++)
    if (base_str_is(name, holders[i].name)) return parse_holder(p, &holders[i], type, depth);
  td_dtype dtype = base_dtype_from_name(name);
  bool open = depth && base_str_is(name, td_dtype_name(TD_INVALID)); /* of an empty list's items nothing is known */
  if (dtype == TD_INVALID && !open) return wrong(p, "a type");
  TRY(need(p, "["));
  *type = (ir_type){.kind = IR_TENSOR, .dtype = dtype};
  if (eat(p, "...")) {
    type->rank = IR_UNRANKED;
    return need(p, "]");
  }
  while (!eat(p, "]")) {
    if (type->rank == BASE_MAX_RANK || (type->rank && !eat(p, ","))) return wrong(p, "] or another dimension");
    skip(p);
    type->dims[type->rank] = base_dim_parse(&p->g->dims, &p->at, p->end);
    if (type->dims[type->rank++] == BASE_DIM_NONE) return wrong(p, "a size");
  }
  return TD_OK;
}

/* ---- values ---- */

static td_status bind_value(parser *p, base_str name, ir_value value) {
  bool existed;
  if (!base_map_put(&p->values, p->g->arena, name, value.id, &existed)) return base_no_memory(p->err, "graph text");
  return existed ? wrong(p, "a value that is not defined yet") : TD_OK;
}

static td_status find_value(parser *p, ir_value *value) {
  *value = IR_NO_VALUE;
  if (eat(p, "-")) return TD_OK;
  base_str name = word(p);
  const uint32_t *id = base_map_get(&p->values, name);
  if (!id) return wrong(p, "a value that was defined");
  value->id = *id;
  return TD_OK;
}

static td_status find_values(parser *p, const char *close, value_list *list) {
  while (!eat(p, close)) {
    if (list->count && !eat(p, ",")) return wrong(p, close);
    ir_value *to = base_vec_push(p->g->arena, list);
    if (!to) return base_no_memory(p->err, "graph text");
    TRY(find_value(p, to));
  }
  return TD_OK;
}

/* ---- constants ---- */

static td_status parse_element(parser *p, const base_tensor *t, int64_t index) {
  if (t->dtype == TD_STRING) {
    char *text;
    size_t length;
    TRY(quoted(p, &text, &length));
    ((td_string *)t->data)[index] = (td_string){text, length};
  } else if (base_is_float(t->dtype)) {
    double v;
    TRY(real(p, &v));
    base_store_f64(t->dtype, t->data, index, v);
  } else {
    int64_t v;
    TRY(integer(p, &v));
    base_store_i64(t->dtype, t->data, index, v);
  }
  return TD_OK;
}

static td_status parse_elements(parser *p, base_tensor *t, int64_t count, size_t bytes) {
  if (count > p->end - p->at)
    return wrong(p, "as many elements as the type says"); /* each takes a byte of text at least */
  t->data = base_arena_alloc(p->g->arena, bytes ? bytes : 1);
  if (!t->data) return base_no_memory(p->err, "graph text");
  for (int64_t i = 0; i < count; i++) {
    if (i) TRY(need(p, ","));
    TRY(parse_element(p, t, i));
  }
  return need(p, "}");
}

/* Bytes from the first to the last element must lie in the segment. */
static td_status parse_segment(parser *p, base_tensor *t) {
  int64_t segment, offset, low = 0, high = 0, span;
  TRY(integer(p, &segment));
  TRY(need(p, "+"));
  TRY(integer(p, &offset));
  if (segment < 0 || segment >= p->segment_count || offset < 0) return wrong(p, "a segment that was given");
  if (t->dtype == TD_STRING) return wrong(p, "the strings themselves, in braces");
  if (eat(p, "strides")) {
    TRY(need(p, "["));
    for (int32_t i = 0; i < t->rank; i++) {
      if (i) TRY(need(p, ","));
      TRY(integer(p, &t->strides[i]));
    }
    TRY(need(p, "]"));
  }
  for (int32_t i = 0; i < t->rank; i++) {
    if (!base_mul_i64(t->strides[i], t->dims[i] > 0 ? t->dims[i] - 1 : 0, &span))
      return wrong(p, "strides within the segment");
    if (!base_add_i64(span < 0 ? low : high, span, span < 0 ? &low : &high))
      return wrong(p, "strides within the segment");
  }
  size_t bytes;
  if (low < 0 || high == INT64_MAX || !base_dtype_bytes(t->dtype, high + 1, &bytes) ||
      !base_in_range((uint64_t)offset, bytes, p->segments[segment].bytes))
    return wrong(p, "a range within the segment");
  t->data = (char *)(uintptr_t)p->segments[segment].base + offset;
  return TD_OK;
}

static char *optional_name(parser *p, td_status *status) {
  char *name = NULL;
  size_t length;
  skip(p);
  if (p->at < p->end && *p->at == '"') *status = quoted(p, &name, &length);
  return name;
}

static td_status parse_const(parser *p) {
  td_status status = TD_OK;
  base_str name = word(p);
  char *label = optional_name(p, &status);
  TRY(status);
  ir_type type;
  TRY(need(p, ":"));
  TRY(parse_type(p, &type, 0));
  TRY(need(p, "="));
  if (type.kind != IR_TENSOR || type.rank < 0) return wrong(p, "a ranked tensor type");
  int64_t dims[BASE_MAX_RANK], count;
  size_t bytes;
  for (int32_t i = 0; i < type.rank; i++) {
    if (!base_dim_known(type.dims[i])) return wrong(p, "a constant with known sizes");
    dims[i] = type.dims[i];
  }
  if (!base_numel(type.rank, dims, &count) || !base_dtype_bytes(type.dtype, count, &bytes))
    return wrong(p, "sizes that fit");
  base_tensor t = base_tensor_of(NULL, type.dtype, type.rank, dims);
  if (eat(p, "@")) TRY(parse_segment(p, &t));
  else {
    TRY(need(p, "{"));
    TRY(parse_elements(p, &t, count, bytes));
  }
  ir_value value;
  TRY(ir_add_constant(p->g, &t, label, &value, p->err));
  return bind_value(p, name, value);
}

static td_status parse_input(parser *p) {
  td_status status = TD_OK;
  base_str name = word(p);
  char *label = optional_name(p, &status);
  TRY(status);
  ir_type type;
  ir_value fallback = IR_NO_VALUE, value;
  TRY(need(p, ":"));
  TRY(parse_type(p, &type, 0));
  if (eat(p, "=")) TRY(find_value(p, &fallback));
  TRY(ir_add_input(p->g, &type, label, fallback, &value, p->err));
  return bind_value(p, name, value);
}

static td_status parse_initial(parser *p, ir_initial *initial, int depth) {
  BASE_VEC(ir_initial) items = {0};
  if (depth > MAX_DEPTH) return wrong(p, "a list that is nested less deeply");
  *initial = (ir_initial){.list = eat(p, "[")};
  if (!initial->list) return find_value(p, &initial->value);
  while (!eat(p, "]")) {
    if (items.count) TRY(need(p, ","));
    ir_initial *to = base_vec_push(p->g->arena, &items);
    if (!to) return base_no_memory(p->err, "graph text");
    TRY(parse_initial(p, to, depth + 1));
  }
  initial->items = items.at;
  initial->count = items.count;
  return TD_OK;
}

static td_status parse_state(parser *p) {
  char *label;
  size_t length;
  ir_type type;
  ir_initial initial;
  ir_value value;
  base_str name = word(p);
  TRY(quoted(p, &label, &length));
  TRY(need(p, ":"));
  TRY(parse_type(p, &type, 0));
  TRY(need(p, "="));
  TRY(parse_initial(p, &initial, 0));
  TRY(ir_add_state(p->g, &type, label, &initial, &value, p->err));
  return bind_value(p, name, value);
}

/* ---- nodes ---- */

static const ir_attr *find_attr(const ir_op *op, base_str name) {
  for (uint32_t i = 0; i < op->attr_count; i++)
    if (base_str_is(name, op->attrs[i].name)) return &op->attrs[i];
  return NULL;
}

static td_status parse_ints(parser *p, base_arg *arg) {
  BASE_VEC(int64_t) list = {0};
  TRY(need(p, "["));
  while (!eat(p, "]")) {
    if (list.count) TRY(need(p, ","));
    int64_t *to = base_vec_push(p->g->arena, &list);
    if (!to) return base_no_memory(p->err, "graph text");
    TRY(integer(p, to));
  }
  arg->ints = list.at;
  arg->count = list.count;
  return TD_OK;
}

static td_status parse_floats(parser *p, base_arg *arg) {
  BASE_VEC(double) list = {0};
  TRY(need(p, "["));
  while (!eat(p, "]")) {
    if (list.count) TRY(need(p, ","));
    double *to = base_vec_push(p->g->arena, &list);
    if (!to) return base_no_memory(p->err, "graph text");
    TRY(real(p, to));
  }
  arg->floats = list.at;
  arg->count = list.count;
  return TD_OK;
}

static td_status parse_int_arg(parser *p, base_arg *arg) { return integer(p, &arg->i); }
static td_status parse_float_arg(parser *p, base_arg *arg) { return real(p, &arg->f); }
static td_status parse_bool_arg(parser *p, base_arg *arg) {
  arg->i = eat(p, "true");
  return arg->i ? TD_OK : need(p, "false");
}
static td_status parse_dtype_arg(parser *p, base_arg *arg) {
  arg->i = base_dtype_from_name(word(p));
  return arg->i == TD_INVALID ? wrong(p, "an element type") : TD_OK;
}
static td_status parse_str_arg(parser *p, base_arg *arg) {
  char *text;
  size_t length;
  TRY(quoted(p, &text, &length));
  arg->str = text;
  return TD_OK;
}

static td_status parse_attrs(parser *p, const ir_op *op, arg_list *args) {
  static td_status (*const readers[])(parser *, base_arg *) = {
      [BASE_ATTR_INT] = parse_int_arg,     [BASE_ATTR_FLOAT] = parse_float_arg, [BASE_ATTR_BOOL] = parse_bool_arg,
      [BASE_ATTR_DTYPE] = parse_dtype_arg, [BASE_ATTR_STR] = parse_str_arg,     [BASE_ATTR_INTS] = parse_ints,
      [BASE_ATTR_FLOATS] = parse_floats};
  while (!eat(p, "}")) {
    if (args->count) TRY(need(p, ","));
    base_str name = word(p);
    const ir_attr *attr = find_attr(op, name);
    if (!attr) return wrong(p, "an attribute of the operator");
    TRY(need(p, "="));
    base_arg *arg = base_vec_push(p->g->arena, args);
    if (!arg) return base_no_memory(p->err, "graph text");
    *arg = (base_arg){.name = attr->name, .kind = attr->kind};
    TRY(readers[attr->kind](p, arg));
  }
  return TD_OK;
}

static td_status parse_types(parser *p, type_list *types) {
  if (!eat(p, ":")) return TD_OK;
  do {
    ir_type *to = base_vec_push(p->g->arena, types);
    if (!to) return base_no_memory(p->err, "graph text");
    TRY(parse_type(p, to, 0));
  } while (eat(p, ","));
  return TD_OK;
}

static td_status parse_origins(parser *p, ir_node_def *node) {
  BASE_VEC(const char *) names = {0};
  if (!eat(p, "#")) return TD_OK;
  for (;;) {
    while (p->at < p->end && *p->at == ' ') p->at++;
    if (p->at == p->end || *p->at != '"') break;
    const char **to = base_vec_push(p->g->arena, &names);
    char *name;
    size_t length;
    if (!to) return base_no_memory(p->err, "graph text");
    TRY(quoted(p, &name, &length));
    *to = name;
  }
  node->origins = (ir_origins){names.at, names.count};
  return TD_OK;
}

static td_status parse_statement(parser *p, ir_block block, int depth);

static td_status parse_block(parser *p, ir_node owner, int depth) {
  ir_block block;
  TRY(ir_add_block(p->g, owner, &block, p->err));
  TRY(need(p, "("));
  for (uint32_t i = 0; !eat(p, ")"); i++) {
    if (i) TRY(need(p, ","));
    base_str name = word(p);
    ir_type type;
    ir_value value;
    TRY(need(p, ":"));
    TRY(parse_type(p, &type, 0));
    TRY(ir_add_param(p->g, block, &type, NULL, &value, p->err));
    TRY(bind_value(p, name, value));
  }
  TRY(need(p, "{"));
  while (!eat(p, "yield")) TRY(parse_statement(p, block, depth));
  value_list results = {0};
  TRY(find_values(p, "}", &results));
  for (uint32_t i = 0; i < results.count; i++) TRY(ir_add_result(p->g, block, results.at[i], p->err));
  return TD_OK;
}

/* The written types win over inferred ones where they agree in kind: they carry the names of the symbols. */
static td_status take_types(parser *p, ir_node node, const type_list *types) {
  if (types->count == 0) return TD_OK;
  ir_node_def *def = ir_node_of(p->g, node);
  if (types->count != def->out_count) return wrong(p, "one type per result");
  for (uint32_t i = 0; i < types->count; i++) {
    ir_type *own = &ir_value_of(p->g, def->out[i])->info.type;
    const ir_type *written = &types->at[i];
    bool fits = own->kind == written->kind && own->dtype == written->dtype && own->rank == written->rank;
    for (int32_t k = 0; fits && k < own->rank; k++)
      fits = !base_dim_known(own->dims[k]) || !base_dim_known(written->dims[k]) || own->dims[k] == written->dims[k];
    if (!fits) return wrong(p, "the type that inference gives");
    *own = *written;
  }
  return TD_OK;
}

static td_status bind_results(parser *p, ir_node node, const word_list *names) {
  for (uint32_t i = 0; i < names->count; i++) TRY(bind_value(p, names->at[i], ir_node_of(p->g, node)->out[i]));
  return TD_OK;
}

static td_status parse_apply(parser *p, ir_block block, const word_list *names, base_str op_name, int depth) {
  char name[128];
  if (op_name.length == 0 || op_name.length >= sizeof name) return wrong(p, "an operator");
  memcpy(name, op_name.at, op_name.length);
  name[op_name.length] = 0;
  const ir_op *op = ir_opset_find(p->g->ops, name);
  if (!op) return wrong(p, "the name of an operator that exists");
  value_list in = {0};
  arg_list args = {0};
  type_list types = {0};
  ir_node node;
  TRY(need(p, "("));
  TRY(find_values(p, ")", &in));
  bool region = op->flags & IR_OP_REGION;
  if (op->attr_count && eat(p, "{")) TRY(parse_attrs(p, op, &args));
  TRY(parse_types(p, &types));
  if (region && types.count != names->count) return wrong(p, "the types of a region's results");
  ir_new_node spec = {.op = op,
                      .in = in.at,
                      .in_count = in.count,
                      .out_count = names->count,
                      .args = args.at,
                      .arg_count = args.count,
                      .out_types = region ? types.at : NULL};
  TRY(ir_add_node(p->g, block, &spec, &node, NULL, p->err));
  bool has_blocks = region && eat(p, "{");
  TRY(parse_origins(p, ir_node_of(p->g, node)));
  while (has_blocks && !eat(p, "}")) {
    TRY(need(p, "block"));
    TRY(parse_block(p, node, depth + 1));
  }
  if (!region) TRY(take_types(p, node, &types));
  return bind_results(p, node, names);
}

static td_status parse_statement(parser *p, ir_block block, int depth) {
  if (depth > MAX_DEPTH) return wrong(p, "blocks that are nested less deeply");
  word_list names = {0};
  base_str first = word(p);
  if (first.length == 0) return wrong(p, "a statement");
  if (first.at[0] != '%') return parse_apply(p, block, &names, first, depth);
  for (;;) {
    base_str *to = base_vec_push(p->g->arena, &names);
    if (!to) return base_no_memory(p->err, "graph text");
    *to = first;
    if (!eat(p, ",")) break;
    first = word(p);
  }
  TRY(need(p, "="));
  return parse_apply(p, block, &names, word(p), depth);
}

static td_status parse_output(parser *p) {
  char *name;
  size_t length;
  ir_value value;
  TRY(quoted(p, &name, &length));
  TRY(find_value(p, &value));
  TRY(ir_add_output(p->g, value, name, p->err));
  if (!eat(p, "complex")) return TD_OK;
  if (!ir_holds_pairs(ir_type_of(p->g, value))) return wrong(p, "no `complex`: the output has no last axis of 2");
  return ir_mark_complex(p->g, p->err);
}

static td_status parse_store(parser *p) {
  ir_value state, with;
  TRY(find_value(p, &state));
  TRY(need(p, "="));
  TRY(find_value(p, &with));
  for (uint32_t i = 0; i < p->g->states.count; i++)
    if (ir_state_before(p->g, i).id == state.id) return ir_store_state(p->g, state, with, p->err);
  return wrong(p, "a state in front of the =");
}

static td_status parse_size(parser *p, base_dim *dim) {
  skip(p);
  *dim = base_dim_parse(&p->g->dims, &p->at, p->end);
  return *dim == BASE_DIM_NONE ? wrong(p, "a size") : TD_OK;
}

static td_status parse_guard(parser *p) {
  static const base_relation order[] = {BASE_EQ, BASE_NE, BASE_LE, BASE_LT}; /* "<=" is looked for before "<" */
  base_guard guard = {0};
  char *text;
  size_t length;
  bool found = false;
  TRY(parse_size(p, &guard.left));
  for (size_t i = 0; !found && i < sizeof order / sizeof *order; i++) {
    guard.relation = order[i];
    found = eat(p, base_relation_name(order[i]));
  }
  if (!found) return wrong(p, "a comparison");
  TRY(parse_size(p, &guard.right));
  TRY(quoted(p, &text, &length));
  guard.text = text;
  return ir_add_guard(p->g, &guard, p->err);
}

static td_status parse_all(parser *p) {
  for (uint32_t i = 0; i < p->segment_count; i++) {
    ir_segment *to = base_vec_push(p->g->arena, &p->g->segments);
    if (!to) return base_no_memory(p->err, "graph text");
    *to = p->segments[i];
  }
  for (skip(p); p->at < p->end; skip(p)) {
    td_status status = eat(p, "input")    ? parse_input(p)
                       : eat(p, "const")  ? parse_const(p)
                       : eat(p, "state")  ? parse_state(p)
                       : eat(p, "output") ? parse_output(p)
                       : eat(p, "store")  ? parse_store(p)
                       : eat(p, "guard")  ? parse_guard(p)
                                          : parse_statement(p, p->g->top, 0);
    TRY(status);
  }
  td_error broken;
  td_status status = ir_verify(p->g, &broken);
  if (status == TD_NO_RESOURCE) return base_no_memory(p->err, "graph text");
  return status == TD_OK ? TD_OK : base_fail(p->err, TD_BAD_FILE, broken.name, -1, "graph text: %s", broken.text);
}

td_status ir_parse(const td_allocator *allocator, const ir_opset *ops, const char *text, size_t length,
                   const ir_segment *segments, uint32_t segment_count, ir_graph **graph, td_error *err) {
  if (!length) text = ""; /* the caller's may be NULL then */
  parser p = {.g = ir_graph_new(allocator, ops),
              .text = text,
              .at = text,
              .end = text + length,
              .segments = segments,
              .segment_count = segment_count,
              .err = err};
  if (!p.g) return base_no_memory(err, "a graph");
  td_status status = parse_all(&p);
  if (status == TD_OK) *graph = p.g;
  else ir_graph_free(p.g);
  return status;
}
