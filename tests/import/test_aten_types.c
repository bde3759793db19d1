/* test_aten_types.c -- every operator of the table that takes several tensors, with every pair of types that PyTorch
 * takes: it is accepted, and its result is of the type that PyTorch gives. */
#include "test.h"

#include "import/world.h"

#include <stdio.h>

#define PATTERN(text) text,
static const char *const patterns[] = {
#include "met_types.inc"
};
#undef PATTERN
#define ROW(schema, matrices, number) {schema, {matrices, number}},
static const struct {
  const char *schema;
  uint32_t pattern[2]; /* of a second operand of every rank, and of rank 0 */
} rows[] = {
#include "met_types.inc"
};
enum { ROWS = sizeof rows / sizeof *rows };

static const td_dtype types[] = {TD_BOOL, TD_U8, TD_I8, TD_I16, TD_I32, TD_I64, TD_F16, TD_BF16, TD_F32, TD_F64};
enum { TYPES = sizeof types / sizeof *types };
static const char letters[] = "bBcsilhefd";

/* What is not as in PyTorch, and why. */
static const struct {
  const char *name, *why;
} left_out[] = {{"aten::lu_unpack", "no factors are of bool"},
                {"aten::rnn_tanh_cell", "no cell is of integers"},
                {"aten::trapezoid", "places of rank 0 are one place, and nothing lies between"},
                {"aten::trapz", "the same"},
                {"aten::cumulative_trapezoid", "the same"}};

/* Ones. */
static aten_value tensor(world *w, td_dtype dtype, int32_t rank) {
  static uint64_t data[4];
  uint64_t *ones = base_arena_alloc(w->arena, sizeof data);
  assert_non_null(ones);
  for (int64_t i = 0; i < 4; i++) base_store_f64(dtype, ones, i, 1);
  base_tensor t = base_tensor_of(ones, dtype, rank, (int64_t[]){2, 2});
  return aten_of(w->a, ir_build_constant(&w->build, &t), true);
}

typedef struct operands {
  td_dtype first, second;
  int32_t second_rank;
  uint32_t taken;
} operands;

static aten_value next_tensor(world *w, operands *o) {
  return o->taken++ ? tensor(w, o->second, o->second_rank) : tensor(w, o->first, 2);
}

static aten_value atom(world *w, uint8_t kind, operands *o) {
  switch (kind) {
    case ATEN_ATOM_TENSOR: return next_tensor(w, o);
    case ATEN_ATOM_FLOAT: return aten_float(1);
    case ATEN_ATOM_BOOL: return aten_bool(false);
    case ATEN_ATOM_STR: return aten_text(w->a, "none");
    case ATEN_ATOM_INT:
    case ATEN_ATOM_SCALAR: return aten_int(1);
    default: return ATEN_NOTHING;
  }
}
static aten_value argument(world *w, const aten_param *p, operands *o) {
  if (p->has_default) return p->fallback;
  if (p->is_optional) return ATEN_NOTHING;
  if (!p->is_list) return atom(w, p->atom, o);
  aten_value items[2];
  for (uint32_t i = 0; i < 2; i++) items[i] = atom(w, p->atom, o);
  return aten_list_of(w->a, items, 2);
}

static aten_value call(world *w, const char *line, operands o) {
  aten_schema s;
  char name[128];
  aten_value args[ATEN_MAX_PARAMS];
  aten_keyword keywords[ATEN_MAX_PARAMS];
  uint32_t count = 0, keyword_count = 0;
  assert_true(aten_parse_schema(w->arena, line, &s));
  const base_str called = aten_schema_name(line);
  snprintf(name, sizeof name, "%.*s", (int)called.length, called.at);
  for (uint32_t i = 0; i < s.count; i++) {
    const aten_value v = argument(w, &s.params[i], &o);
    if (s.params[i].keyword_only) keywords[keyword_count++] = (aten_keyword){s.params[i].name, v};
    else args[count++] = v;
  }
  const char *overload = base_arena_slice(w->arena, s.overload.at, s.overload.length);
  return aten_call(w->a, name, overload, args, count, keywords, keyword_count);
}

/* The letter of the result's type; '-': refused. */
static char met(world *w, const char *line, operands o) {
  aten_value y = call(w, line, o);
  if (!ir_build_failed(&w->build) && (y.kind == ATEN_LIST || y.kind == ATEN_TUPLE)) y = y.u.list->items.at[0];
  if (ir_build_failed(&w->build) || y.kind != ATEN_TENSOR) return '-';
  const td_dtype d = aten_value_dtype(w->a, aten_read(w->a, &y));
  for (uint32_t i = 0; i < TYPES && !ir_build_failed(&w->build); i++)
    if (types[i] == d) return letters[i];
  return '-';
}

static bool is_left_out(const char *line) {
  const base_str name = aten_schema_name(line);
  for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
    if (base_str_is(name, left_out[i].name)) return true;
  return false;
}

/* How many pairs differ, with the first of them told. */
static uint32_t wrong_pairs(const char *line, const char *pattern, int32_t rank) {
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < TYPES * TYPES; i++) {
    if (pattern[i] == '-' || pattern[i] == '?') continue;
    world w;
    assert_true(world_open(&w, &base_libc_allocator));
    const operands o = {types[i / TYPES], types[i % TYPES], rank, 0};
    const char got = met(&w, line, o);
    if (got != pattern[i] && wrong++ == 0 && !is_left_out(line))
      print_message("%s of %c and %c%s: %c instead of %c: %s\n", line, letters[i / TYPES], letters[i % TYPES],
                    rank ? "" : " of rank 0", got, pattern[i], w.err.text);
    world_close(&w);
  }
  return wrong;
}

static void test_types_meet(void **state) {
  (void)state;
  uint32_t bad = 0;
  for (uint32_t r = 0; r < ROWS; r++) {
    uint32_t wrong = 0;
    for (uint32_t k = 0; k < 2; k++) wrong += wrong_pairs(rows[r].schema, patterns[rows[r].pattern[k]], k ? 0 : 2);
    bad += (wrong != 0) != is_left_out(rows[r].schema);
    if (!wrong && is_left_out(rows[r].schema)) print_message("%s is right, but left out\n", rows[r].schema);
  }
  assert_int_equal(bad, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_types_meet)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
