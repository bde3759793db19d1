/* matmul_amx.c -- KERN_MATMUL on 16 bits by tiles of AMX: both operands, of any strides, are rounded to bf16, sums are
 * f32. A batch is a group of the image's, whose rows are those of A; panels of B are made as tiles need them. */
#include "kernels/simd/amx_priv.h"
#include "kernels/products/epilogue_priv.h"
#include "kernels/products/image_product_priv.h"
#include "kernels/products/matmul_priv.h"
#include "kernels/products/pairs_panels_priv.h"

typedef struct product {
  image_product amx; /* the first, so that its functions know the others */
  matmul_batches p;
  kern_epilogue e;
} product;

static const char *rows_of(const image_product *amx, int64_t plane, int64_t first, int64_t last, int64_t group) {
  const matmul_batches *p = &((const product *)amx)->p;
  (void)plane, (void)last;
  return (const char *)(p->a + matmul_offset(p, p->a_strides, group) + first * p->a_row);
}

/* A row of A; behind the last one, zeros. */
static void take_row(const image_product *amx, const char *from, int64_t phase, void *image) {
  const matmul_batches *p = &((const product *)amx)->p;
  const float *row = (const float *)(const void *)from;
  uint16_t *to = image;
  (void)phase;
  const int64_t count = row ? p->k : 0;
  if (p->a_column == 1) p_round_row(to, row, count);
  else
    for (int64_t k = 0; k < count; k += V_LANES) {
      const int64_t n = base_min_i64(V_LANES, count - k);
      float some[V_LANES] = {0};
      for (int64_t i = 0; i < n; i++) some[i] = row[(k + i) * p->a_column];
      p_store(to + k, v_load(some), n);
    }
  memset(to + count, 0, (size_t)(amx->channels - count) * sizeof *to);
}

/* Panels of B, [pair][column]. */
static void unpack(const image_product *amx, int64_t group, int64_t panel, int64_t panels, char *to) {
  const matmul_batches *p = &((const product *)amx)->p;
  const kern_matrix b = {p->b + matmul_offset(p, p->b_strides, group), p->k, p->n, p->b_row, p->b_column};
  pairs_pack(&b, panel, panels, amx->blocks * amx->words, (float *)(void *)to);
}

static void finish(const image_product *amx, float *sums, int64_t pixel, int64_t rows, int64_t group, int64_t column,
                   int64_t columns) {
  const product *own = (const product *)amx;
  const matmul_batches *p = &own->p;
  float *c = p->c + (group * p->m + pixel) * p->n + column;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < columns; i += V_LANES)
      v_store_n(c + r * p->n + i, v_load(sums + r * AMX_WIDTH + i), base_min_i64(V_LANES, columns - i));
  if (!own->e.chain) return;
  const kern_epilogue e = kern_epilogue_at(&own->e, group * p->m + pixel, column);
  kern_epilogue_chain(&e, c, p->n, rows, columns);
}

td_status KERN_PART_NAME(matmul_bf16_amx)(const base_call *call) {
  const kern_conv_axis one = {1, 1, 1, 1, 0, 1};
  product own = {.p = KERN_NAME(matmul_batches)(call), .e = {.act = KERN_ACT_none, .row_step = 1}};
  const matmul_batches *p = &own.p;
  if (p->m == 0 || p->n == 0 || p->count == 0 || p->k == 0) return KERN_NAME(matmul)(call);
  TRY(kern_chain_of(call, &KERN_NAME(fused_level), &own.e.chain));
  const int64_t stored = kern_tiles_depth(p->k), pairs = stored / 2, blocks = base_ceil_div(pairs, AMX_ROWS);
  own.amx = (image_product){.c = {.axis = {one, {p->m, p->m, 1, 1, 0, 1}, one},
                                  .batch = 1,
                                  .groups = p->count,
                                  .group_in = p->k,
                                  .group_out = p->n,
                                  .stored = stored,
                                  .taps = 1,
                                  .in_size = p->m,
                                  .out_size = p->m},
                            .size = sizeof(uint16_t),
                            .blocks = blocks,
                            .words = pairs / blocks,
                            .channels = KERN_PART_NAME(image_spread)(stored, sizeof(uint16_t)),
                            .x = (const char *)p->a,
                            .x_line = p->a_row * (int64_t)sizeof *p->a,
                            .weights = sizeof(uint32_t),
                            .unpack = unpack,
                            .make_lines = rows_of,
                            .take = take_row,
                            .multiply = KERN_PART_NAME(amx_bf16),
                            .finish = finish};
  KERN_PART_NAME(image_cut)(&own.amx, call->workers);
  return KERN_PART_NAME(image_run)(call, &own.amx);
}
