/* test_casts.c -- casts between all types that loops have, as loops: interpreted on each level and compiled, they give
 * what the reference gives, at the ends of types, beyond them, and of what is not a number. */
#include <math.h>

#include "codegen/chains.h"
#include "kernels/kernels.h"

enum { ELEMENTS = 1061 /* more than a block, and a tail */ };
static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_F16, TD_BF16, TD_I64, TD_I32,
                                  TD_I16, TD_I8,  TD_U32, TD_U16,  TD_U8,  TD_BOOL};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

#define OK(call) \
  if ((call) != TD_OK) fail_msg("%s: %s", err.name, err.text)

static double edge(int64_t i) {
  static const double some[] = {0,           -0.0,      0.5,       -0.5,    1.5,      -1.5,    127,    127.9,
                                128,         -128,      -128.9,    -129,    255,      255.9,   256,    -1,
                                32767.5,     32768,     -32768,    -32769,  65535,    65535.9, 65536,  2147483647,
                                2147483648., 0x1p31,    -0x1p31,   -0x1p32, 0x1.8p31, 0x1p32,  0x1p53, 0x1p62,
                                0x1p63,      -0x1p63,   -0x1.8p63, 0x1p64,  1e30,     -1e30,   1e-45,  1e-8,
                                INFINITY,    -INFINITY, NAN,       3e38,    70000};
  const int64_t count = sizeof some / sizeof *some;
  return i % 3 ? some[i % count] : (double)(i * 37 % 1009 - 500) * 1.25;
}

static ir_value cast(base_arena *arena, ir_graph *graph, ir_value x, td_dtype from, td_dtype to, bool back) {
  td_error err;
  ir_value y;
  const base_arg arg = ARG_DTYPE("dtype", back ? TD_F32 : to);
  const ir_new_node spec = {
      .op = ir_opset_find(graph->ops, "aten::_to_copy"), .in = &x, .in_count = 1, .args = &arg, .arg_count = 1};
  OK(ir_add_node(graph, graph->top, &spec, NULL, &y, &err));
  const char *name =
      base_arena_format(arena, "%s to %s%s", td_dtype_name(from), td_dtype_name(to), back ? " and back" : "");
  OK(ir_add_output(graph, y, name, &err));
  return y;
}

/* Every type cast to every other one, of one operand each; what is short, back to f32: it is rounded within the loop.
 */
static ir_graph *make_graph(base_arena *arena) {
  const int64_t count = ELEMENTS;
  td_error err;
  ir_graph *graph = ir_graph_new(&base_libc_allocator, ops_set(arena));
  for (int from = 0; from < DTYPES; from++) {
    ir_value x;
    const ir_type type = ir_tensor(dtypes[from], 1, &count);
    OK(ir_add_input(graph, &type, td_dtype_name(dtypes[from]), IR_NO_VALUE, &x, &err));
    for (int to = 0; to < DTYPES; to++) {
      if (to == from) continue;
      const ir_value y = cast(arena, graph, x, dtypes[from], dtypes[to], false);
      if (dtypes[to] == TD_F16 || dtypes[to] == TD_BF16) cast(arena, graph, y, dtypes[from], dtypes[to], true);
    }
  }
  return graph;
}

typedef struct result {
  const char *name;
  base_tensor tensor;
} result;

static uint32_t run(const compile_setting *setting, base_arena *arena, result *out) {
  td_error err;
  plan_exe *plan = NULL;
  run_session *session = NULL;
  ir_graph *graph = make_graph(arena);
  const int64_t count = ELEMENTS;
  OK(compile_graph(graph, setting, &base_libc_allocator, NULL, &plan, &err));
  OK(run_session_new(plan, &base_libc_allocator, NULL, &session, &err));
  for (uint32_t i = 0; i < DTYPES; i++) {
    base_value value = {
        .kind = BASE_TENSOR,
        .tensor = base_tensor_of(base_arena_alloc_aligned(arena, ELEMENTS * 8, 64), dtypes[i], 1, &count)};
    for (int64_t k = 0; k < count; k++) base_store_f64(dtypes[i], value.tensor.data, k, edge(k));
    OK(run_set_input(session, i, &value, &err));
  }
  OK(run_session_run(session, &err));
  for (uint32_t i = 0; i < plan->outputs.count; i++) {
    const base_value *value;
    OK(run_output(session, i, &value, &err));
    out[i] = (result){base_arena_format(arena, "%s", plan->names.at + plan->outputs.at[i].name), value->tensor};
    out[i].tensor.data = base_arena_copy(arena, value->tensor.data, base_tensor_bytes(&value->tensor));
  }
  const uint32_t outputs = plan->outputs.count;
  run_session_free(session);
  plan_free(plan);
  ir_graph_free(graph);
  return outputs;
}

static bool same(const base_tensor *a, const base_tensor *b, int64_t i) {
  const double x = base_load_f64(a->dtype, a->data, i), y = base_load_f64(b->dtype, b->data, i);
  return (isnan(x) && isnan(y)) ||
         (x == y && base_load_i64(a->dtype, a->data, i) == base_load_i64(b->dtype, b->data, i));
}

static void compare(const compile_setting *setting, const char *what) {
  static result want[DTYPES * (DTYPES + 1)], got[DTYPES * (DTYPES + 1)]; /* there, and back from two of them */
  base_arena *arena = base_arena_new(&base_libc_allocator);
  const compile_setting truth = {.backend = compile_find_backend("aot_eager")};
  const uint32_t count = run(&truth, arena, want);
  assert_int_equal(run(setting, arena, got), count);
  for (uint32_t k = 0; k < count; k++)
    for (int64_t i = 0; i < ELEMENTS; i++) {
      const base_tensor *a = &want[k].tensor, *b = &got[k].tensor;
      if (!same(a, b, i))
        fail_msg("%s: %s: %g is %.17g, not %.17g", what, want[k].name, edge(i), base_load_f64(b->dtype, b->data, i),
                 base_load_f64(a->dtype, a->data, i));
    }
  base_arena_free(arena);
}

static void interpreted(void **state) {
  (void)state;
  uint32_t levels;
  sys_machine machine;
  const kern_level *level = kern_levels(&levels);
  sys_cpu_read(&machine);
  for (uint32_t i = 0; i < levels; i++) {
    const compile_setting setting = {.backend = compile_find_backend("interp"), .isa = level[i].isa};
    if (!base_isa_lacks(machine.isa, level[i].isa)) compare(&setting, level[i].name);
  }
}

static void compiled(void **state) {
  (void)state;
  uint32_t levels;
  sys_machine machine;
  const kern_level *level = kern_levels(&levels);
  sys_cpu_read(&machine);
  if (!chains_compiler()) skip();
  char *cache = chains_cache();
  for (uint32_t i = 1; i < levels; i++) {
    const compile_setting setting = {.backend = compile_find_backend("native"),
                                     .isa = level[i].isa,
                                     .options.cc = chains_compiler(),
                                     .options.cache = cache,
                                     .options.strict = true};
    if (!base_isa_lacks(machine.isa, level[i].isa)) compare(&setting, level[i].name);
  }
  chains_remove(cache);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(interpreted), cmocka_unit_test(compiled)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
