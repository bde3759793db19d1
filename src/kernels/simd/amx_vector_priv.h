/* amx_vector_priv.h -- the vocabulary of amx_priv.h in plain C: what the instructions do, and where they fault (Intel
 * SDM vol. 2, LDTILECFG to TDPBF16PS). Check builds alone have it, so that rows of tiles are tested where the CPU has
 * none, and sanitizers see what tiles read and write. */
#ifndef KERNELS_AMX_VECTOR_PRIV_H
#define KERNELS_AMX_VECTOR_PRIV_H
#include "base/assert.h"
#include "kernels/simd/bytes_vector_priv.h"
#include "kernels/simd/pairs_priv.h"

/* A thread's; products/wide/tile_amx.c has them. A tile of no rows is not configured. */
typedef struct amx_registers {
  amx_sizes sizes;
  uint8_t at[AMX_TILES][AMX_ROWS][AMX_BYTES];
} amx_registers;
extern _Thread_local amx_registers KERN_PART_NAME(amx_registers);

#define AMX_LOAD(tile, from, pitch) amx_load(tile, from, pitch)
#define AMX_LOAD_FAR AMX_LOAD
#define AMX_STORE(tile, to, pitch) amx_store(tile, to, pitch)
#define AMX_ZERO(tile) amx_load(tile, NULL, 0)
#define AMX_DOT_U8(sum, a, b) amx_dot(sum, a, b, amx_add_u8)
#define AMX_DOT_BF16(sum, a, b) amx_dot(sum, a, b, amx_add_bf16)

V_INLINE void amx_configure(const amx_sizes *sizes) { KERN_PART_NAME(amx_registers).sizes = *sizes; }
V_INLINE void amx_release(void) { KERN_PART_NAME(amx_registers).sizes = (amx_sizes){.palette = 0}; }

/* NULL: zeros. What is behind a row's bytes, and behind the rows, becomes zero. */
V_INLINE void amx_load(int tile, const void *from, int64_t pitch) {
  amx_registers *t = &KERN_PART_NAME(amx_registers);
  BASE_ASSERT(t->sizes.palette == 1 && t->sizes.rows[tile] > 0);
  memset(t->at[tile], 0, sizeof t->at[tile]);
  for (int64_t r = 0; from && r < t->sizes.rows[tile]; r++)
    memcpy(t->at[tile][r], (const char *)from + r * pitch, t->sizes.bytes[tile]);
}
V_INLINE void amx_store(int tile, void *to, int64_t pitch) {
  const amx_registers *t = &KERN_PART_NAME(amx_registers);
  BASE_ASSERT(t->sizes.palette == 1 && t->sizes.rows[tile] > 0);
  for (int64_t r = 0; r < t->sizes.rows[tile]; r++)
    memcpy((char *)to + r * pitch, t->at[tile][r], t->sizes.bytes[tile]);
}

/* Adds the products of a row of A, `words` words of it, and B to a row of AMX_COLUMNS sums. */
typedef void amx_add(void *sums, const uint8_t *a, const uint8_t (*b)[AMX_BYTES], int64_t words);

V_INLINE void amx_add_u8(void *sums, const uint8_t *a, const uint8_t (*b)[AMX_BYTES], int64_t words) {
  vi sum = b_load(sums);
  for (int64_t i = 0; i < words; i++) {
    int32_t word;
    memcpy(&word, a + i * 4, sizeof word);
    sum = b_dot(sum, vi_set(word), b_load((const int8_t *)b[i]));
  }
  b_store_i32(sums, sum);
}
/* First numbers of pairs have a sum, second numbers another, from zero on. */
V_INLINE void amx_add_bf16(void *sums, const uint8_t *a, const uint8_t (*b)[AMX_BYTES], int64_t words) {
  vf sum, first = v_zero(), second = v_zero();
  for (int64_t i = 0; i < words; i++) {
    vf pair, pairs;
    float word;
    memcpy(&word, a + i * 4, sizeof word);
    memcpy(&pairs, b[i], sizeof pairs);
    pair = v_set(word);
    first = v_fma(p_first(pair), p_first(pairs), first);
    second = v_fma(p_second(pair), p_second(pairs), second);
  }
  memcpy(&sum, sums, sizeof sum);
  sum = v_add(sum, v_add(first, second));
  memcpy(sums, &sum, sizeof sum);
}

V_INLINE void amx_dot(int sum, int a, int b, amx_add *add) {
  amx_registers *t = &KERN_PART_NAME(amx_registers);
  const amx_sizes *s = &t->sizes;
  BASE_ASSERT(s->palette == 1 && s->rows[sum] > 0 && s->rows[sum] == s->rows[a]);
  BASE_ASSERT(s->bytes[a] == 4 * s->rows[b] && s->bytes[sum] == s->bytes[b] && s->bytes[b] == AMX_COLUMNS * 4);
  for (int64_t r = 0; r < s->rows[sum]; r++)
    add(t->at[sum][r], t->at[a][r], (const uint8_t(*)[AMX_BYTES])t->at[b], s->rows[b]);
}
#endif
