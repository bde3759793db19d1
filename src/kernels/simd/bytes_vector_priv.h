/* bytes_vector_priv.h -- the vocabulary of bytes_priv.h in plain C: what VNNI does, a lane at a time. Check builds
 * alone have it, so that rows of bytes that take fours are tested where the CPU lacks the instruction. */
#ifndef KERNELS_BYTES_VECTOR_PRIV_H
#define KERNELS_BYTES_VECTOR_PRIV_H
#include "kernels/simd/simd_priv.h"

#define BYTES_BY_FOURS 1
enum { BYTES_DEPTH = 4, BYTES_PANELS = 4, B_COPIED = 64 };
typedef uint8_t byte_x;
#define b_opaque(x) ((void)(x))
V_INLINE vi b_load(const int8_t *p) {
  vi a;
  memcpy(&a, p, sizeof a);
  return a;
}
V_INLINE vi b_load_x(const byte_x *p) { return b_load((const int8_t *)p); }
V_INLINE vi b_load_i32(const int32_t *p) { return b_load((const int8_t *)p); }
V_INLINE void b_store_i32(int32_t *p, vi a) { memcpy(p, &a, sizeof a); }
V_INLINE vi b_shr(vi a, vi n) { return a >> n; }
V_INLINE vi b_multiply(vi a, vi b) { return (vi)((vu)a * (vu)b); }
V_INLINE vi b_dot(vi sum, vi x, vi w) {
  for (uint32_t i = 0; i < BYTES_DEPTH; i++)
    sum = vi_add(sum, b_multiply(vi_and(vi_shr(x, 8 * i), vi_set(255)), vi_shr(vi_shl(w, 24 - 8 * i), 24)));
  return sum;
}
V_INLINE vi b_dot_pair(vi sum, vi x, vi w) {
  for (uint32_t i = 0; i < 2; i++)
    sum = vi_add(sum, b_multiply(vi_shr(vi_shl(x, 16 - 16 * i), 16), vi_shr(vi_shl(w, 16 - 16 * i), 16)));
  return sum;
}
V_INLINE void b_store_pairs(int16_t *p, vi a, int64_t n, int64_t bits) {
  for (int64_t i = 0; i < n; i += 8)
    for (int64_t j = 0; j < 4; j++) {
      const int64_t at = i + (bits == 4 ? j % 2 * 4 + j / 2 : j / 2 * 4 + j % 2);
      *p++ = (int16_t)a[at];
      *p++ = (int16_t)a[at + 2];
    }
}
V_INLINE void b_store(uint8_t *p, vi a, int64_t n) {
  for (int64_t i = 0; i < n; i++) p[i] = (uint8_t)a[i];
}
V_INLINE void b_store_x(byte_x *p, vi a, int64_t n) { b_store(p, a, n); }
V_INLINE vi b_widen(const uint8_t *p, int64_t n) {
  vi a = vi_set(0);
  for (int64_t i = 0; i < n; i++) a[i] = p[i];
  return a;
}
V_INLINE vi b_load_some(const uint8_t *p, int64_t n) {
  vi a = vi_set(0);
  memcpy(&a, p, (size_t)n);
  return a;
}
V_INLINE void b_store_some(uint8_t *p, vi a, int64_t n) { memcpy(p, &a, (size_t)n); }
V_INLINE vi b_max(vi a, vi b) {
  uint8_t x[sizeof a], y[sizeof a];
  memcpy(x, &a, sizeof x);
  memcpy(y, &b, sizeof y);
  for (size_t i = 0; i < sizeof x; i++) x[i] = x[i] > y[i] ? x[i] : y[i];
  return b_load((const int8_t *)x);
}
V_INLINE void b_copy(byte_x *to, const uint8_t *from, uint8_t flip, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = from[i] ^ flip;
}
V_INLINE void b_zip(byte_x *to, const uint8_t *const *row, int64_t at, int64_t n, uint8_t flip) {
  for (int64_t i = 0; i < V_LANES * BYTES_DEPTH; i++)
    to[i] = (i / BYTES_DEPTH < n ? row[i % BYTES_DEPTH][at + i / BYTES_DEPTH] : 0) ^ flip;
}
typedef struct b_bytes {
  int zero, least, most;
  uint8_t flip;
} b_bytes;
V_INLINE b_bytes b_bytes_of(int zero, int least, int most, uint8_t flip) { return (b_bytes){zero, least, most, flip}; }
V_INLINE int b_within(int x, int least, int most) { return x < least ? least : x > most ? most : x; }
V_INLINE void b_narrow(uint8_t *to, const vi *q, const b_bytes *b, int64_t n, const bool plain) {
  for (int64_t i = 0; i < n; i++) {
    const int word =
        b_within(b_within(q[i / V_LANES][i % V_LANES], INT16_MIN, INT16_MAX) + b->zero, INT16_MIN, INT16_MAX);
    const int byte = b_within(word, 0, 255);
    to[i] = plain ? (uint8_t)byte : (uint8_t)b_within(byte, b->least, b->most) ^ b->flip;
  }
}
#endif
