/* winograd_weights_priv.h -- U = G w Gt of 3x3 kernels (pack_winograd.h), WEIGHTS_LANES of them side by side, in
 * double. Whoever includes this says how many: as many as a vector of its instruction set has. */
#ifndef KERNELS_WINOGRAD_WEIGHTS_PRIV_H
#define KERNELS_WINOGRAD_WEIGHTS_PRIV_H
#include "kernels/products/pack_winograd.h"

enum { WEIGHTS_SIDE = 6, WEIGHTS_ELEMENTS = WEIGHTS_SIDE * WEIGHTS_SIDE }; /* of a transformed kernel at most */
typedef double weights_lanes __attribute__((vector_size(WEIGHTS_LANES * sizeof(double))));

#define WEIGHTS_INLINE static inline __attribute__((always_inline))

/* At point x a row of G is 1, x, x^2 over the product of x's distances to the other points. to = G (a, b, c). */
WEIGHTS_INLINE void weights_turn(weights_lanes a, weights_lanes b, weights_lanes c, weights_lanes *to, int64_t tile) {
  if (tile == 2) {
    const weights_lanes sum = a + c;
    to[0] = a;
    to[1] = (sum + b) * 0.5;
    to[2] = (sum - b) * 0.5;
    to[3] = c;
    return;
  }
  const double p1 = KERN_WINOGRAD_P, p2 = p1 * p1, q1 = KERN_WINOGRAD_Q, q2 = q1 * q1;
  const double at_0 = 1 / (p2 * q2), at_p = 1 / (2 * p2 * (p2 - q2)), at_q = 1 / (2 * q2 * (q2 - p2));
  const weights_lanes even_p = (a + p2 * c) * at_p, odd_p = p1 * b * at_p;
  const weights_lanes even_q = (a + q2 * c) * at_q, odd_q = q1 * b * at_q;
  to[0] = a * at_0;
  to[1] = even_p + odd_p;
  to[2] = even_p - odd_p;
  to[3] = even_q + odd_q;
  to[4] = even_q - odd_q;
  to[5] = c;
}

/* u[row * (tile + 2) + column] of kernel[row * 3 + column]. */
WEIGHTS_INLINE void weights_transform(const weights_lanes *kernel, weights_lanes *u, int64_t tile) {
  const int64_t side = tile + 2;
  weights_lanes rows[3][WEIGHTS_SIDE];
  for (int64_t r = 0; r < 3; r++) weights_turn(kernel[3 * r], kernel[3 * r + 1], kernel[3 * r + 2], rows[r], tile);
  for (int64_t c = 0; c < side; c++) {
    weights_lanes column[WEIGHTS_SIDE];
    weights_turn(rows[0][c], rows[1][c], rows[2][c], column, tile);
    for (int64_t r = 0; r < side; r++) u[r * side + c] = column[r];
  }
}
#endif
