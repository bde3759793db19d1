/* Activations an element at a time: what their formulas give, computed elsewhere, in f64 and rounded once in f32. */
#include "test.h"

#include "kernels/loops/loops.h"

#include <math.h>

enum { POINTS = 3 };
static const double points[POINTS] = {-2, 0.5, 1.5}, numbers[3] = {0.25, 0.5, 0}; /* x; a, b, c */

static const struct {
  base_scalar function;
  double expected[POINTS];
} rows[] = {
    {BASE_SCALAR_relu, {0.0, 0.5, 1.5}},
    {BASE_SCALAR_leaky_relu, {-0.5, 0.5, 1.5}},
    {BASE_SCALAR_sigmoid, {0.11920292202211755, 0.6224593312018546, 0.8175744761936437}},
    {BASE_SCALAR_silu, {-0.2384058440442351, 0.3112296656009273, 1.2263617142904655}},
    {BASE_SCALAR_softplus, {0.1269280110429725, 0.9740769841801067, 1.7014132779827524}},
    {BASE_SCALAR_mish, {-0.2525014826957089, 0.3752452113048951, 1.4033782663958028}},
    {BASE_SCALAR_softsign, {-0.6666666666666666, 0.3333333333333333, 0.6}},
    {BASE_SCALAR_hard_sigmoid, {0.0, 0.625, 0.875}},
    {BASE_SCALAR_hardswish, {-0.33333333333333337, 0.2916666666666667, 1.125}},
    {BASE_SCALAR_gelu, {-0.04550026389635842, 0.34573123063700656, 1.399789198096713}},
    {BASE_SCALAR_gelu_tanh, {-0.04540230591222494, 0.34571400982514394, 1.3995715769802328}},
};

static void activations_are_their_formulas(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const float narrow[POINTS] = {(float)points[0], (float)points[1], (float)points[2]};
    const kern_fused_source wide[3] = {{points, 1}, {points, 1}, {points, 1}};
    const kern_fused_source short_of[3] = {{narrow, 1}, {narrow, 1}, {narrow, 1}};
    double d[POINTS];
    float f[POINTS];
    kern_fused_apply((uint32_t)rows[i].function, BASE_TYPE_F64, BASE_TYPE_F64, numbers, d, wide, POINTS);
    kern_fused_apply((uint32_t)rows[i].function, BASE_TYPE_F32, BASE_TYPE_F32, numbers, f, short_of, POINTS);
    for (size_t k = 0; k < POINTS; k++) {
      const double want = rows[i].expected[k];
      if (!(fabs(d[k] - want) <= 1e-15) || !(fabs((double)f[k] - want) <= 1e-7))
        fail_msg("%s(%g) is %.17g and %.9g, not %.17g", base_scalar_of(rows[i].function)->name, points[k], d[k],
                 (double)f[k], want);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(activations_are_their_formulas)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
