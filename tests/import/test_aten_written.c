/* test_aten_written.c -- every operator of PyTorch's that writes into an argument, and whose functional form is in the
 * table, is accepted with the arguments that its schema names: in place and out=, into tensors and into views. */
#include "test.h"

#include "import/world.h"

#include <stdio.h>

static const char *const forms[] = {
#include "written_forms.inc"
};

/* What has no lowering in any form, or takes a generator, which no file holds. */
static const char *const left_out[] = {"aten::dequantize.tensors_out",
                                       "aten::hamming_window.periodic_alpha_beta_out",
                                       "aten::hamming_window.periodic_alpha_out",
                                       "aten::mul_.t",
                                       "aten::quantize_per_tensor.tensors_out",
                                       "aten::rand.generator_out",
                                       "aten::rand_like.generator_out",
                                       "aten::randint.generator_out",
                                       "aten::randint.low_generator_out",
                                       "aten::randint_like.Tensor_generator_out",
                                       "aten::randint_like.generator_out",
                                       "aten::randint_like.low_generator_dtype_out",
                                       "aten::randn.generator_out",
                                       "aten::randn_like.generator_out",
                                       "aten::randperm.generator_out"};

typedef enum shown { WHOLE, SLICED, TURNED, DIAGONAL, SHOWN_COUNT } shown;

static aten_value call(world *w, const char *name, const aten_value *args, uint32_t count) {
  return aten_call(w->a, name, NULL, args, count, NULL, 0);
}

/* A matrix of f32, as part of a larger tensor that the program holds. */
static aten_value matrix(world *w, shown how) {
  static const float data[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  const int32_t rank = how == WHOLE || how == TURNED ? 2 : 3;
  base_tensor t =
      base_tensor_of((void *)(uintptr_t)data, TD_F32, rank, rank == 2 ? (int64_t[]){2, 2} : (int64_t[]){2, 2, 2});
  aten_value v = aten_of(w->a, ir_build_constant(&w->build, &t), true);
  if (how == SLICED) return call(w, "aten::select", (aten_value[]){v, aten_int(0), aten_int(1)}, 3);
  if (how == TURNED) return call(w, "aten::t", &v, 1);
  return how == DIAGONAL ? call(w, "aten::diagonal", (aten_value[]){v, aten_int(0), aten_int(0), aten_int(1)}, 4) : v;
}

static aten_value atom(world *w, uint8_t kind, shown how) {
  switch (kind) {
    case ATEN_ATOM_TENSOR: return matrix(w, how);
    case ATEN_ATOM_FLOAT: return aten_float(1);
    case ATEN_ATOM_BOOL: return aten_bool(false);
    case ATEN_ATOM_STR: return aten_text(w->a, "none");
    case ATEN_ATOM_INT:
    case ATEN_ATOM_SCALAR: return aten_int(1);
    default: return ATEN_NOTHING;
  }
}

static aten_value argument(world *w, const aten_param *p, shown how) {
  if (p->is_optional && !p->is_written) return ATEN_NOTHING;
  if (!p->is_list) return atom(w, p->atom, p->is_written ? how : WHOLE);
  aten_value items[2] = {atom(w, p->atom, WHOLE), atom(w, p->atom, WHOLE)};
  return aten_list_of(w->a, items, 2);
}

/* Does the call find its operator? What it makes of these arguments is another matter. */
static bool is_accepted(world *w, const char *line, shown how) {
  aten_schema s;
  char name[128];
  aten_value args[ATEN_MAX_PARAMS];
  aten_keyword keywords[ATEN_MAX_PARAMS];
  uint32_t count = 0, keyword_count = 0;
  assert_true(aten_parse_schema(w->arena, line, &s));
  const base_str called = aten_schema_name(line);
  snprintf(name, sizeof name, "%.*s", (int)called.length, called.at);
  const char *overload = base_arena_slice(w->arena, s.overload.at, s.overload.length);
  if (!aten_supports(w->a, name, overload)) return false;
  for (uint32_t i = 0; i < s.count; i++) {
    const aten_value v = argument(w, &s.params[i], how);
    if (s.params[i].keyword_only) keywords[keyword_count++] = (aten_keyword){s.params[i].name, v};
    else args[count++] = v;
  }
  assert_int_equal(w->build.status, TD_OK);
  (void)aten_call(w->a, name, overload, args, count, keywords, keyword_count);
  const bool found = !strstr(w->err.text, "no form of") && !strstr(w->err.text, "is not supported");
  return found && !strstr(w->err.text, "it writes through"); /* a view that cannot be written into */
}

static bool is_left_out(const char *line) {
  const size_t head = strcspn(line, "(");
  for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
    if (strlen(left_out[i]) == head && memcmp(left_out[i], line, head) == 0) return true;
  return false;
}

static void test_all_are_accepted(void **state) {
  (void)state;
  uint32_t bad = 0, accepted = 0;
  for (shown how = WHOLE; how < SHOWN_COUNT; how++)
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
      world w;
      assert_true(world_open(&w, &base_libc_allocator));
      const bool is = is_accepted(&w, forms[i], how);
      accepted += is;
      if (is == is_left_out(forms[i])) {
        bad++;
        print_message("%s, written form %d: %s\n", forms[i], (int)how, is ? "is accepted, but listed" : w.err.text);
      }
      world_close(&w);
    }
  print_message("%u calls find their operator\n", accepted);
  assert_int_equal(bad, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_are_accepted)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
