/* gemm_body_priv.h -- the body of gemm.c for one element type: GEMM_T, GEMM_U (any alignment), GEMM(name). */

/* sums[j] += the products of kn elements of a row of A with kn rows of B; four rows at a time, so that an accumulator
 * is loaded and stored once for four products. Columns are counted in an int: sanitizers know that their offsets do not
 * overflow. */
static void GEMM(row)(const GEMM_U *a, int64_t a_column, const GEMM_U *b, int64_t b_row, int64_t kn, int jn,
                      GEMM_T *restrict sums) {
  int64_t k = 0;
  for (; k + 4 <= kn; k += 4) {
    GEMM_T a0 = a[k * a_column], a1 = a[(k + 1) * a_column], a2 = a[(k + 2) * a_column], a3 = a[(k + 3) * a_column];
    const GEMM_U *b0 = b + k * b_row, *b1 = b0 + b_row, *b2 = b1 + b_row, *b3 = b2 + b_row;
    for (int j = 0; j < jn; j++) sums[j] += (a0 * b0[j] + a1 * b1[j]) + (a2 * b2[j] + a3 * b3[j]);
  }
  for (; k < kn; k++) {
    GEMM_T a0 = a[k * a_column];
    const GEMM_U *b0 = b + k * b_row;
    for (int j = 0; j < jn; j++) sums[j] += a0 * b0[j];
  }
}

void GEMM(ops_gemm)(const GEMM(gemm) * g) {
  GEMM_T sums[GEMM_COLUMNS];
  if (g->m == 0) return;
  for (int64_t j0 = 0; j0 < g->n; j0 += GEMM_COLUMNS) {
    int64_t jn = base_min_i64(GEMM_COLUMNS, g->n - j0);
    for (int64_t k0 = 0; k0 < g->k; k0 += GEMM_ROWS) {
      int64_t kn = base_min_i64(GEMM_ROWS, g->k - k0), b_row = g->pack ? GEMM_COLUMNS : g->b_row;
      if (g->pack) g->pack(g, k0, kn, j0, jn, g->block);
      const GEMM_U *b = g->pack ? (const GEMM_U *)g->block : g->b + k0 * b_row + j0;
      for (int64_t i = 0; i < g->m; i++) {
        GEMM_U *c = g->c + i * g->c_row + j0;
        for (int64_t j = 0; j < jn; j++) sums[j] = c[j];
        GEMM(row)(g->a + i * g->a_row + k0 * g->a_column, g->a_column, b, b_row, kn, (int)jn, sums);
        for (int64_t j = 0; j < jn; j++) c[j] = sums[j];
      }
    }
  }
}

static void GEMM(pack_strided)(const GEMM(gemm) * g, int64_t k0, int64_t kn, int64_t j0, int64_t jn, GEMM_T *to) {
  for (int64_t j = 0; j < jn; j++) {
    const GEMM_U *from = g->b + k0 * g->b_row + (j0 + j) * g->b_column;
    for (int64_t k = 0; k < kn; k++) to[k * GEMM_COLUMNS + j] = from[k * g->b_row];
  }
}

bool GEMM(ops_gemm_matrix)(const base_call *call, GEMM(gemm) * g) {
  if (g->b_column == 1 || g->n <= 1) return true;
  g->pack = GEMM(pack_strided);
  if (!g->block) g->block = base_call_scratch(call, GEMM_BLOCK, sizeof *g->block);
  return g->block != NULL;
}
