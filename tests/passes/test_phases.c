/* Transposed convolutions to few channels: which become plain ones, of any size, and that numbers stay. */
#include "passes/numbers.h"

/* What the passes up to `phases` make of the text. Gives the changes of the last one. */
static uint32_t changes_in(const char *text, uint32_t isa, kern_precision precision) {
  static const char *const names[] = {"channels_last", "epilogue", "phases"};
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  const passes_setting setting = {.kernels = true, .isa = isa, .precision = precision};
  td_error err;
  uint32_t changes = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    changes = 0;
    if (find_pass(names[i])->run(graph, &setting, &changes, &err) != TD_OK || ir_verify(graph, &err) != TD_OK)
      fail_msg("%s: %s\n%s", names[i], err.text, text);
  }
  ir_graph_free(graph);
  base_arena_free(arena);
  return changes;
}
static uint32_t changes_of(const char *text, uint32_t isa) { return changes_in(text, isa, KERN_PRECISION_F32); }

/* Open sizes, too, where the image grows by the stride; what follows each element alone comes before it is moved. */
static void open_sizes_fit(void **state) {
  (void)state;
  for (int cut = 0; cut < 2; cut++) {
    char text[512];
    snprintf(text, sizeof text,
             "input %%0 \"x\": f32[n, 3, l]\n"
             "const %%1: f32[3, 1, 2] = {1, 2, 3, 4, 5, 6}\n"
             "%%2 = aten::convolution(%%0, %%1) {transposed = true, stride = [2], padding = [%d, 0]}\n"
             "output \"y\" %%2\n",
             cut);
    assert_int_equal(changes_of(text, level_of("avx2")), !cut);
    snprintf(text, sizeof text,
             "input %%0 \"x\": f32[n, 3, h, w]\n"
             "const %%1: f32[3, 1, 2, 2] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n"
             "const %%2: f32[1] = {2}\n"
             "%%3 = aten::convolution(%%0, %%1, %%2) {transposed = true, stride = [2, 2], padding = [0, 0, 0, %d]}\n"
             "%%4 = aten::neg(%%3)\n"
             "output \"y\" %%4\n",
             cut);
    assert_int_equal(changes_of(text, level_of("avx2")), cut ? 0 : 2);
  }
}

/* ---- generated ones ---- */

static uint32_t seed;
static int draw(int count) {
  seed = seed * 1664525 + 1013904223;
  return (int)(seed >> 16) % count;
}

enum { TEXT = 1 << 18 };

typedef struct geometry {
  int spatial, inputs, outputs, groups;
  int kernel[2], stride[2], begin[2], end[2], more[2], dilation;
} geometry;

static void draw_geometry(geometry *g) {
  *g = (geometry){.spatial = 1 + draw(2), .groups = draw(8) ? 1 : 2, .dilation = draw(10) ? 1 : 2};
  g->inputs = g->groups * (1 + draw(8));
  g->outputs = g->groups * (1 + draw(draw(3) ? 3 : 10));
  for (int i = 0; i < g->spatial; i++) {
    g->stride[i] = i && draw(5) ? g->stride[0] : 1 + draw(4);
    g->kernel[i] = draw(6) ? g->stride[i] * (1 + draw(2)) : 1 + draw(6);
    g->begin[i] = draw(g->kernel[i]);
    g->end[i] = draw(g->kernel[i]);
    g->more[i] = draw(3) ? 0 : draw(g->stride[i]);
  }
}

/* Does the pass take it, as its file says? */
static bool is_narrow(const geometry *g, int lanes) {
  int pixels = 1, taps = 1;
  bool fits = g->groups == 1 && g->dilation == 1 && (g->spatial == 1 || g->stride[0] == g->stride[1]);
  for (int i = 0; i < g->spatial; i++) {
    fits &= g->kernel[i] % g->stride[i] == 0 && g->end[i] >= g->more[i];
    pixels *= g->stride[i];
    taps *= g->kernel[i] / g->stride[i];
  }
  const int before = (g->outputs + lanes - 1) / lanes * pixels, after = (g->outputs * pixels + lanes - 1) / lanes;
  return fits && 4 * after <= 3 * before &&
         (g->spatial == 1 || (before - after) * taps * g->inputs >= 2 * pixels * g->outputs);
}

static void put_list(char *text, const char *name, const int *a, const int *b, int count) {
  sprintf(text + strlen(text), "%s = [", name);
  for (int i = 0; i < 2 * count; i++)
    if (i < count || b) sprintf(text + strlen(text), "%s%d", i ? ", " : "", i < count ? a[i] : b[i - count]);
  strcat(text, "]");
}

static void put_numbers(char *text, int count) {
  char *at = text + strlen(text);
  for (int i = 0; i < count; i++) at += sprintf(at, "%s%g", i ? ", " : "", (draw(101) - 50) / 200.0);
  strcpy(at, "}\n");
}

/* The convolution, perhaps with what goes into its epilogue. */
static void put_graph(char *text, const geometry *g) {
  static const char *const behind[] = {"relu", "gelu", "neg"};
  const int dilation[] = {g->dilation, g->dilation}, *k = g->kernel;
  const int count = g->inputs * g->outputs / g->groups * k[0] * (g->spatial > 1 ? k[1] : 1);
  const int batch = 1 + draw(2);
  sprintf(text, "input %%0 \"x\": f32[%d, %d", batch, g->inputs);
  for (int i = 0; i < g->spatial; i++) {
    int size = 3 + draw(15);
    while ((size - 1) * g->stride[i] + k[i] < 1 + g->begin[i] + g->end[i]) size++;
    sprintf(text + strlen(text), ", %d", size);
  }
  sprintf(text + strlen(text), "]\nconst %%1: f32[%d, %d, %d", g->inputs, g->outputs / g->groups, k[0]);
  if (g->spatial > 1) sprintf(text + strlen(text), ", %d", k[1]);
  strcat(text, "] = {");
  put_numbers(text, count);
  sprintf(text + strlen(text), g->spatial > 1 ? "const %%2: f32[%d, 1, 1] = {" : "const %%2: f32[%d, 1] = {",
          g->outputs);
  put_numbers(text, g->outputs);
  sprintf(text + strlen(text), "const %%3: f32[%d] = {", g->outputs);
  put_numbers(text, g->outputs);
  sprintf(text + strlen(text), "%%4 = aten::convolution(%%0, %%1%s) {transposed = true, groups = %d, ",
          draw(2) ? ", %3" : "", g->groups);
  put_list(text, "stride", g->stride, NULL, g->spatial);
  put_list(text, ", padding", g->begin, g->end, g->spatial);
  put_list(text, ", dilation", dilation, NULL, g->spatial);
  put_list(text, ", output_padding", g->more, NULL, g->spatial);
  strcat(text, "}\n");
  const int last = 4 + draw(2);
  if (last == 5) strcat(text, "%5 = aten::mul(%4, %2)\n");
  sprintf(text + strlen(text), "%%6 = aten::%s(%%%d)\noutput \"y\" %%6\n", behind[draw(3)], last);
}

static void few_channels_are_made_at_once(void **state) {
  (void)state;
  static char text[TEXT];
  int taken = 0;
  sys_machine machine;
  sys_machine_read(&machine);
  const uint32_t levels[] = {level_of("avx2"), machine.isa | BASE_ISA_VECTOR};
  for (uint32_t n = 1; n < 500; n++) {
    geometry g;
    seed = n * 7919;
    draw_geometry(&g);
    put_graph(text, &g);
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
      const int lanes = (int)kern_select(KERN_CONV_TRANSPOSE, TD_F32, levels[i])->lanes;
      const bool narrow = is_narrow(&g, lanes);
      if (narrow != (changes_of(text, levels[i]) > 0))
        fail_msg("%s at %d lanes:\n%s", narrow ? "stays" : "changes", lanes, text);
      if (n % 3 == 0 && !base_isa_lacks(machine.isa | BASE_ISA_VECTOR, levels[i]))
        expect_same_numbers_at(text, levels[i]);
      taken += narrow;
    }
  }
  assert_true(taken > 300);
}

static void phases_are_channels(void **state) {
  (void)state;
  expect_change_with(&(passes_setting){.kernels = true, .isa = level_of("avx2")}, "phases",
                     "input %0 \"x\": f32[n, l, 3]\n"
                     "const %1: f32[3, 1, 2] = {1, 2, 3, 4, 5, 6}\n"
                     "%2 = td::conv_transpose(%0, %1) {kernel = [2], stride = [2], channels = 1}\n"
                     "output \"y\" %2\n",
                     "input %0 \"x\": f32[n, l, 3]\n"
                     "const %1: f32[2, 3, 1] = {1, 3, 5, 2, 4, 6}\n"
                     "const %2: i64[3] = {0, -1, 1}\n"
                     "%3 = td::conv(%0, %1) {kernel = [1], stride = [1], padding = [0, 0], dilation = [], groups = 1, "
                     "channels = 2, panel = 0, channels_first = false, act = \"none\", act_a = 0, act_b = 0, act_late "
                     "= false, in_front = false}: f32[n, l, 2]\n"
                     "%4 = aten::view(%3, %2) {zero_copies = true}: f32[n, mul(2, l), 1]\n"
                     "output \"y\" %4\n",
                     1);
}

/* As many channels as a vector has lanes: phases are no fewer products, but in bf16 quicker ones. */
static void pairs_pay_for_more_channels(void **state) {
  (void)state;
  enum { INPUTS = 64, CHANNELS = 16 };
  static char text[TEXT];
  size_t at = (size_t)snprintf(text, TEXT, "input %%0 \"x\": f32[1, %d, 8, 8]\nconst %%1: f32[%d, %d, 2, 2] = {1",
                               INPUTS, INPUTS, CHANNELS);
  for (int i = 1; i < INPUTS * CHANNELS * 4; i++) at += (size_t)snprintf(text + at, TEXT - at, ", 1");
  snprintf(text + at, TEXT - at,
           "}\n%%2 = aten::convolution(%%0, %%1) {transposed = true, stride = [2, 2]}\noutput \"y\" %%2\n");
  assert_int_equal(changes_in(text, level_of("avx512_amx"), KERN_PRECISION_BF16), 1);
  assert_int_equal(changes_in(text, level_of("avx512_amx"), KERN_PRECISION_F32), 0);
  assert_int_equal(changes_in(text, level_of("avx2"), KERN_PRECISION_BF16), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(open_sizes_fit), cmocka_unit_test(few_channels_are_made_at_once),
                                     cmocka_unit_test(phases_are_channels),
                                     cmocka_unit_test(pairs_pay_for_more_channels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
