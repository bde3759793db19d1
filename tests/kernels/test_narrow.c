/* test_narrow.c -- rows of elements of 1 and 2 bytes as fused loops read and write them, on each level: every element,
 * and floats and words of any bits, as the plain conversions of base give them. */
#include "test.h"

#include "kernels/loops/loops.h"
#include "kernels/kernels.h"
#include "sys/sys.h"

enum { HALVES = 1 << 16, FLOATS = 1 << 16 };

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static void expect_float(const char *level, const char *type, uint32_t half, float want, float got) {
  if (bits_of(want) == bits_of(got) || (want != want && got != got)) return;
  fail_msg("%s: %s 0x%04x is %a, not %a", level, type, half, (double)got, (double)want);
}

static void expect_half(const char *level, const char *type, float x, uint16_t want, uint16_t got) {
  if (want == got || x != x) return;
  fail_msg("%s: %a as %s is 0x%04x, not 0x%04x", level, (double)x, type, got, want);
}

/* Floats of random bits, among them those halfway between two halves. */
static void fill(float *x) {
  uint64_t random = 1;
  for (uint32_t i = 0; i < FLOATS; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    uint32_t bits = (uint32_t)(random >> 32);
    if (i % 4 == 1) bits = (bits & 0x80000fffu) | bits_of(base_f16_to_f32((uint16_t)(random >> 20 & 0x7fff)));
    if (i % 4 == 2) bits = (bits & 0xffff0000u) | 0x8000u;
    if (i % 4 == 3)
      bits = (bits & 0x80000000u) | (bits_of(base_f16_to_f32((uint16_t)(random >> 20 & 0x7fff))) + 0x1000u);
    memcpy(&x[i], &bits, sizeof bits);
  }
}

static void each_level(void **state) {
  (void)state;
  static uint16_t half[HALVES], back[FLOATS];
  static float wide[HALVES], x[FLOATS];
  sys_machine machine;
  uint32_t count;
  const kern_level *levels = kern_levels(&count);
  sys_cpu_read(&machine);
  fill(x);
  for (uint32_t i = 0; i < HALVES; i++) half[i] = (uint16_t)i;
  for (uint32_t l = 0; l < count; l++) {
    if (base_isa_lacks(machine.isa, levels[l].isa)) continue;
    const kern_fused_level *level = kern_fused_level_of(levels[l].isa);
    const char *name = levels[l].name;
    level->forms[TD_F16].read(wide, half, HALVES);
    for (uint32_t i = 0; i < HALVES; i++) expect_float(name, "f16", i, base_f16_to_f32(half[i]), wide[i]);
    level->forms[TD_BF16].read(wide, half, HALVES - 3);
    for (uint32_t i = 0; i < HALVES - 3; i++) expect_float(name, "bf16", i, base_bf16_to_f32(half[i]), wide[i]);
    level->forms[TD_F16].write(back, x, FLOATS - 5);
    for (uint32_t i = 0; i < FLOATS - 5; i++) expect_half(name, "f16", x[i], base_f32_to_f16(x[i]), back[i]);
    level->forms[TD_BF16].write(back, x, FLOATS);
    for (uint32_t i = 0; i < FLOATS; i++) expect_half(name, "bf16", x[i], base_f32_to_bf16(x[i]), back[i]);
  }
}

/* Whole numbers: those of the type as they are, words cut. */
static void whole_numbers(void **state) {
  (void)state;
  static const td_dtype dtypes[] = {TD_U8, TD_I8, TD_U16, TD_I16};
  enum { COUNT = (1 << 16) - 3 };
  static uint16_t narrow[1 << 16], back[1 << 16];
  static int32_t wide[1 << 16];
  sys_machine machine;
  uint32_t count;
  const kern_level *levels = kern_levels(&count);
  sys_cpu_read(&machine);
  for (int i = 0; i < 1 << 16; i++) narrow[i] = (uint16_t)((uint32_t)i * 40503u);
  for (uint32_t l = 0; l < count * 4; l++) {
    const td_dtype dtype = dtypes[l % 4];
    if (base_isa_lacks(machine.isa, levels[l / 4].isa)) continue;
    const kern_fused_form *form = &kern_fused_level_of(levels[l / 4].isa)->forms[dtype];
    form->read(wide, narrow, COUNT);
    for (int i = 0; i < COUNT; i++) assert_int_equal(wide[i], base_load_i64(dtype, narrow, i));
    for (int i = 0; i < COUNT; i++) wide[i] = (int32_t)((uint32_t)i * 2654435761u);
    back[COUNT] = 0x1234;
    form->write(back, wide, COUNT);
    for (int i = 0; i < COUNT; i++) {
      uint64_t one = 0;
      base_store_i64(dtype, &one, 0, wide[i]);
      assert_int_equal(base_load_i64(dtype, back, i), base_load_i64(dtype, &one, 0));
    }
    assert_int_equal(back[COUNT], 0x1234);
  }
}

/* Turned tiles of any size, on each level. */
static void turned_tiles(void **state) {
  (void)state;
  static float from[40 * 70], to[70 * 80];
  sys_machine machine;
  uint32_t count;
  const kern_level *levels = kern_levels(&count);
  sys_cpu_read(&machine);
  for (int i = 0; i < 40 * 70; i++) from[i] = (float)i;
  for (uint32_t l = 0; l < count; l++) {
    if (base_isa_lacks(machine.isa, levels[l].isa)) continue;
    for (int64_t rows = 1; rows <= 40; rows += 3)
      for (int64_t columns = 1; columns <= 70; columns += 7) {
        for (int i = 0; i < 70 * 80; i++) to[i] = -1;
        kern_fused_level_of(levels[l].isa)->turn(to, 80, from, 40, rows, columns, rows % 2 * 8);
        for (int64_t i = 0; i < 70; i++)
          for (int64_t k = 0; k < 80; k++) {
            const float want = i < rows && k < columns ? from[k * 40 + i] : -1;
            assert_float_equal(to[i * 80 + k], want, 0);
          }
      }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_level), cmocka_unit_test(whole_numbers),
                                     cmocka_unit_test(turned_tiles)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
