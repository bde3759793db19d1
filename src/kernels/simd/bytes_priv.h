/* bytes_priv.h -- the vocabulary of products of 8-bit integers: sums of i32 in the lanes of a vector, BYTES_DEPTH
 * products added to each by one instruction or two.
 *
 * Elements of x are byte_x, from 0 to 255, BYTES_DEPTH of them in 32 bits; weights are i8 (pack_i8.h). With VNNI both
 * are bytes. Without, x is widened to 16 bits where rows are gathered, and weights as they are loaded: instructions
 * that multiply bytes there (vpmaddubsw) saturate their sums. BYTES_BY_FOURS tells the preprocessor which. */
#ifndef KERNELS_BYTES_PRIV_H
#define KERNELS_BYTES_PRIV_H
#include "kernels/simd/simd_priv.h"

#if defined V_AVX512
#define BYTES_BY_FOURS 1
enum { BYTES_DEPTH = 4, BYTES_PANELS = 4 };
typedef uint8_t byte_x;
#define b_opaque(x) __asm__("" : "+v"(x)) /* not known to be what it was */
V_INLINE vi b_load(const int8_t *p) { return _mm512_loadu_si512(p); }
V_INLINE vi b_load_x(const byte_x *p) { return _mm512_loadu_si512(p); }
/* gcc 12 keeps the sums of its own intrinsic in too many registers. */
V_INLINE vi b_dot(vi sum, vi x, vi w) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
  return sum;
}
/* The same of weights in memory. */
V_INLINE vi b_dot_at(vi sum, vi x, const int8_t *w) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "m"(*(const vi *)(const void *)w));
  return sum;
}
/* The same with pairs of 16 bits, both of a sign. */
V_INLINE vi b_dot_pair(vi sum, vi x, vi w) {
  __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
  return sum;
}
/* The first n lanes, zeros behind them, of 16 bits, as the words of weights of 4 or 8 bits have pairs (pack_nbits.h):
 * up to the end of a word. */
V_INLINE void b_store_pairs(int16_t *p, vi a, int64_t n, int64_t bits) {
  const __m256i eights = _mm256_set_epi8(0, 30, 0, 26, 0, 22, 0, 18, 0, 28, 0, 24, 0, 20, 0, 16, 0, 14, 0, 10, 0, 6, 0,
                                         2, 0, 12, 0, 8, 0, 4, 0, 0),
                fours = _mm256_set_epi8(0, 30, 0, 26, 0, 28, 0, 24, 0, 22, 0, 18, 0, 20, 0, 16, 0, 14, 0, 10, 0, 12, 0,
                                        8, 0, 6, 0, 2, 0, 4, 0, 0);
  const __m512i order = _mm512_castsi256_si512(bits == 4 ? eights : fours);
  const __m256i pairs = _mm512_castsi512_si256(_mm512_permutexvar_epi16(order, a));
  _mm256_mask_storeu_epi16(p, v_first((n + 7) / 8 * 8), pairs);
}
V_INLINE vi b_shr(vi a, vi n) { return _mm512_srav_epi32(a, n); }
V_INLINE vi b_multiply(vi a, vi b) { return _mm512_mullo_epi32(a, b); }
V_INLINE vi b_load_i32(const int32_t *p) { return _mm512_loadu_si512(p); }
V_INLINE void b_store_i32(int32_t *p, vi a) { _mm512_storeu_si512(p, a); }
/* The first n lanes, each of 0 to 255 or of -128 to 127. */
V_INLINE void b_store(uint8_t *p, vi a, int64_t n) { _mm512_mask_cvtepi32_storeu_epi8(p, v_first(n), a); }
V_INLINE void b_store_x(byte_x *p, vi a, int64_t n) { b_store(p, a, n); }
/* n bytes, at most a vector's lanes, as integers. */
V_INLINE vi b_widen(const uint8_t *p, int64_t n) { return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(v_first(n), p)); }
/* n bytes, at most a vector's, zeros behind them; the larger of each two. */
V_INLINE vi b_load_some(const uint8_t *p, int64_t n) {
  return n == 64 ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(~(~(__mmask64)0 << n), p);
}
V_INLINE void b_store_some(uint8_t *p, vi a, int64_t n) {
  if (n == 64) _mm512_storeu_si512(p, a);
  else _mm512_mask_storeu_epi8(p, ~(~(__mmask64)0 << n), a);
}
V_INLINE vi b_max(vi a, vi b) { return _mm512_max_epu8(a, b); }
/* n elements, at most B_COPIED, as they are read, xor `flip`. */
enum { B_COPIED = 64 };
V_INLINE void b_copy(byte_x *to, const uint8_t *from, uint8_t flip, int64_t n) {
  if (n <= 16) { /* which crosses fewer lines */
    const __mmask16 few = v_first(n);
    const __m128i bytes = _mm_xor_si128(_mm_maskz_loadu_epi8(few, from), _mm_set1_epi8((char)flip));
    _mm_mask_storeu_epi8(to, few, bytes);
    return;
  }
  const __mmask64 first = ~(__mmask64)0 >> (B_COPIED - n);
  const __m512i bytes = _mm512_maskz_loadu_epi8(first, from);
  _mm512_mask_storeu_epi8(to, first, _mm512_xor_si512(bytes, _mm512_set1_epi8((char)flip)));
}
/* Elements at .. at + n, at most V_LANES, of BYTES_DEPTH rows, those of one column side by side. */
V_INLINE void b_zip(byte_x *to, const uint8_t *const *row, int64_t at, int64_t n, uint8_t flip) {
  const __mmask16 first = v_first(n);
  const __m128i a = _mm_maskz_loadu_epi8(first, row[0] + at), b = _mm_maskz_loadu_epi8(first, row[1] + at);
  const __m128i c = _mm_maskz_loadu_epi8(first, row[2] + at), d = _mm_maskz_loadu_epi8(first, row[3] + at);
  const __m256i ab = _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1),
                cd = _mm256_inserti128_si256(_mm256_castsi128_si256(c), d, 1);
  /* Fours of each row side by side in a quarter of the vector, then their bytes. */
  const __m512i fours = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0),
                bytes = _mm512_set4_epi32(0x0f0b0703, 0x0e0a0602, 0x0d090501, 0x0c080400);
  const __m512i all = _mm512_permutexvar_epi32(fours, _mm512_inserti64x4(_mm512_castsi256_si512(ab), cd, 1));
  _mm512_storeu_si512(to, _mm512_xor_si512(_mm512_shuffle_epi8(all, bytes), _mm512_set1_epi8((char)flip)));
}
/* n elements, at most V_LANES, of each of three rows: the first of each, then the second... */
V_INLINE void b_store_threes(byte_x *to, const byte_x *a, const byte_x *b, const byte_x *c, int64_t n) {
  const __m512i all = vi_or(vi_or(b_widen(a, n), vi_shl(b_widen(b, n), 8)), vi_shl(b_widen(c, n), 16));
  const __m512i threes = _mm512_set4_epi32(-1, 0x0e0d0c0a, 0x09080605, 0x04020100),
                words = _mm512_set_epi32(15, 11, 7, 3, 14, 13, 12, 10, 9, 8, 6, 5, 4, 2, 1, 0);
  const __m512i bytes = _mm512_permutexvar_epi32(words, _mm512_shuffle_epi8(all, threes));
  _mm512_mask_storeu_epi8(to, ~(~(__mmask64)0 << 3 * n), bytes);
}
/* What b_narrow makes of integers: plus `zero`, within least and most, xor `flip`. */
typedef struct b_bytes {
  __m512i zero, least, most, flip;
} b_bytes;
V_INLINE b_bytes b_bytes_of(int zero, int least, int most, uint8_t flip) {
  return (b_bytes){_mm512_set1_epi16((int16_t)zero), _mm512_set1_epi8((char)least), _mm512_set1_epi8((char)most),
                   _mm512_set1_epi8((char)flip)};
}
/* Integers of BYTES_PANELS vectors as bytes, in the order of packs; `plain`: they need neither limits nor a flip. */
V_INLINE __m512i b_bytes_from(const vi *q, const b_bytes *b, const bool plain) {
  const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), b->zero),
                high = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), b->zero);
  const __m512i bytes = _mm512_packus_epi16(low, high);
  if (plain) return bytes;
  return _mm512_xor_si512(_mm512_min_epu8(_mm512_max_epu8(bytes, b->least), b->most), b->flip);
}
/* The first n of them. */
V_INLINE void b_narrow(uint8_t *to, const vi *q, const b_bytes *b, int64_t n, const bool plain) {
  const __m512i fours = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  const __m512i bytes = _mm512_permutexvar_epi32(fours, b_bytes_from(q, b, plain));
  _mm512_mask_storeu_epi8(to, ~(__mmask64)0 >> (64 - n), bytes);
}
/* A whole row of BYTES_ROW columns in the order that takes the fewest instructions: b_whole_from tells where the lanes
 * of its vectors, B_WHOLE_RUN of them at a time, stand in the row. b_narrow_whole brings the first n results in order
 * again; `plain`: integers that a byte holds need neither limits nor a flip. */
enum { B_WHOLE_RUN = 4 };
V_INLINE int64_t b_whole_from(int64_t vector, int64_t run) { return run * 16 + vector * B_WHOLE_RUN; }
V_INLINE void b_zip_whole(vi *z, const uint8_t *const *row, uint8_t flip) {
  const __m512i a = _mm512_loadu_si512(row[0]), b = _mm512_loadu_si512(row[1]), c = _mm512_loadu_si512(row[2]),
                d = _mm512_loadu_si512(row[3]);
  const __m512i ab = _mm512_unpacklo_epi8(a, b), ab_high = _mm512_unpackhi_epi8(a, b), cd = _mm512_unpacklo_epi8(c, d),
                cd_high = _mm512_unpackhi_epi8(c, d);
  z[0] = _mm512_unpacklo_epi16(ab, cd);
  z[1] = _mm512_unpackhi_epi16(ab, cd);
  z[2] = _mm512_unpacklo_epi16(ab_high, cd_high);
  z[3] = _mm512_unpackhi_epi16(ab_high, cd_high);
  if (flip) V_FOR(p, BYTES_PANELS) z[p] = _mm512_xor_si512(z[p], _mm512_set1_epi8((char)flip));
}
V_INLINE void b_narrow_whole(uint8_t *to, const vi *q, const b_bytes *b, int64_t first, int64_t n, const bool plain) {
  const __m512i bytes = b_bytes_from(q, b, plain);
  if (first == 0) b_store_some(to, bytes, n);
  else _mm512_mask_storeu_epi8(to, ~(__mmask64)0 >> (64 - n) & ~(__mmask64)0 << first, bytes);
}
/* Sums of bytes, BYTES_ROW of them side by side, B_SUMMED in each at most: those at even places and those at odd ones.
 * b_sums_add: n bytes, xor `flip`. b_sums_to: they are added to integers, in the order of b_whole_from. */
enum { B_SUMMED = 256 };
typedef struct b_sums {
  __m512i even, odd;
} b_sums;
V_INLINE b_sums b_sums_zero(void) { return (b_sums){_mm512_setzero_si512(), _mm512_setzero_si512()}; }
V_INLINE void b_sums_add(b_sums *s, const uint8_t *from, int64_t n, vi flip) {
  const __m512i bytes = _mm512_xor_si512(b_load_some(from, n), flip);
  s->even = _mm512_add_epi16(s->even, _mm512_and_si512(bytes, _mm512_set1_epi16(255)));
  s->odd = _mm512_add_epi16(s->odd, _mm512_srli_epi16(bytes, 8));
}
V_INLINE void b_sums_to(const b_sums *s, vi *q) {
  const __m512i none = _mm512_setzero_si512(), low = _mm512_unpacklo_epi16(s->even, s->odd),
                high = _mm512_unpackhi_epi16(s->even, s->odd);
  q[0] = _mm512_add_epi32(q[0], _mm512_unpacklo_epi16(low, none));
  q[1] = _mm512_add_epi32(q[1], _mm512_unpackhi_epi16(low, none));
  q[2] = _mm512_add_epi32(q[2], _mm512_unpacklo_epi16(high, none));
  q[3] = _mm512_add_epi32(q[3], _mm512_unpackhi_epi16(high, none));
}
/* A table of 256 bytes, two in a word. */
typedef struct b_table {
  __m512i word[4];
} b_table;
V_INLINE b_table b_table_of(const uint8_t *bytes) {
  b_table t;
  V_FOR(i, 4) t.word[i] = _mm512_loadu_si512(bytes + i * 64);
  return t;
}
/* The bytes that words of 0 to 255 name, as words. */
V_INLINE __m512i b_pick(const b_table *t, __m512i x) {
  const __m512i at = _mm512_srli_epi16(x, 1), low = _mm512_permutex2var_epi16(t->word[0], at, t->word[1]),
                high = _mm512_permutex2var_epi16(t->word[2], at, t->word[3]);
  const __m512i both = _mm512_mask_blend_epi16(_mm512_test_epi16_mask(x, _mm512_set1_epi16(128)), low, high);
  const __m512i bits = _mm512_slli_epi16(_mm512_and_si512(x, _mm512_set1_epi16(1)), 3);
  return _mm512_and_si512(_mm512_srlv_epi16(both, bits), _mm512_set1_epi16(255));
}
/* n bytes, at most B_TABLED, by way of the table. */
enum { B_TABLED = 64 };
V_INLINE void b_lookup(uint8_t *to, const uint8_t *from, const b_table *t, int64_t n) {
  const __mmask64 first = ~(__mmask64)0 >> (B_TABLED - n);
  const __m512i x = _mm512_maskz_loadu_epi8(first, from);
  const __m512i even = b_pick(t, _mm512_and_si512(x, _mm512_set1_epi16(255))), odd = b_pick(t, _mm512_srli_epi16(x, 8));
  _mm512_mask_storeu_epi8(to, first, _mm512_or_si512(even, _mm512_slli_epi16(odd, 8)));
}
#elif defined V_AVX2
#define BYTES_BY_FOURS 0
enum { BYTES_DEPTH = 2, BYTES_PANELS = 2 };
#define b_opaque(x) __asm__("" : "+x"(x)) /* not known to be what it was */
typedef int16_t byte_x;
V_INLINE vi b_load(const int8_t *p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p)); }
V_INLINE vi b_load_x(const byte_x *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
V_INLINE vi b_dot(vi sum, vi x, vi w) { return _mm256_add_epi32(sum, _mm256_madd_epi16(x, w)); }
V_INLINE vi b_shr(vi a, vi n) { return _mm256_srav_epi32(a, n); }
V_INLINE vi b_multiply(vi a, vi b) { return _mm256_mullo_epi32(a, b); }
V_INLINE vi b_load_i32(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
V_INLINE void b_store_i32(int32_t *p, vi a) { _mm256_storeu_si256((__m256i *)(void *)p, a); }
V_INLINE __m128i b_words(vi a) { return _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1)); }
V_INLINE void b_store(uint8_t *p, vi a, int64_t n) {
  const __m128i words = b_words(vi_and(a, vi_set(255)));
  uint8_t bytes[16];
  _mm_storeu_si128((__m128i *)(void *)bytes, _mm_packus_epi16(words, words));
  memcpy(p, bytes, (size_t)n);
}
V_INLINE void b_store_x(byte_x *p, vi a, int64_t n) {
  byte_x words[8];
  _mm_storeu_si128((__m128i *)(void *)words, b_words(a));
  memcpy(p, words, (size_t)n * sizeof *p);
}
V_INLINE __m128i b_load_8(const uint8_t *p, int64_t n) {
  uint64_t bytes = 0;
  if (n == 8) memcpy(&bytes, p, 8);
  else memcpy(&bytes, p, (size_t)n);
  return _mm_cvtsi64_si128((int64_t)bytes);
}
V_INLINE vi b_widen(const uint8_t *p, int64_t n) { return _mm256_cvtepu8_epi32(b_load_8(p, n)); }
V_INLINE vi b_load_some(const uint8_t *p, int64_t n) {
  vi a = vi_set(0);
  if (n == sizeof a) return b_load_x((const byte_x *)(const void *)p);
  memcpy(&a, p, (size_t)n);
  return a;
}
V_INLINE void b_store_some(uint8_t *p, vi a, int64_t n) {
  if (n == sizeof a) b_store_i32((int32_t *)(void *)p, a);
  else memcpy(p, &a, (size_t)n);
}
V_INLINE vi b_max(vi a, vi b) { return _mm256_max_epu8(a, b); }
enum { B_COPIED = 16 };
V_INLINE void b_copy(byte_x *to, const uint8_t *from, uint8_t flip, int64_t n) {
  for (int64_t i = 0; n < B_COPIED && i < n; i++) to[i] = (byte_x)(from[i] ^ flip);
  if (n < B_COPIED) return;
  const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)from);
  const __m128i flipped = _mm_xor_si128(bytes, _mm_set1_epi8((char)flip));
  _mm256_storeu_si256((__m256i *)(void *)to, _mm256_cvtepu8_epi16(flipped));
}
V_INLINE void b_zip(byte_x *to, const uint8_t *const *row, int64_t at, int64_t n, uint8_t flip) {
  const __m128i both = _mm_unpacklo_epi8(b_load_8(row[0] + at, n), b_load_8(row[1] + at, n));
  const __m128i flipped = _mm_xor_si128(both, _mm_set1_epi8((char)flip));
  _mm256_storeu_si256((__m256i *)(void *)to, _mm256_cvtepu8_epi16(flipped));
}
typedef struct b_bytes {
  __m128i least, most, flip;
  __m256i zero;
} b_bytes;
V_INLINE b_bytes b_bytes_of(int zero, int least, int most, uint8_t flip) {
  return (b_bytes){_mm_set1_epi8((char)least), _mm_set1_epi8((char)most), _mm_set1_epi8((char)flip),
                   _mm256_set1_epi16((int16_t)zero)};
}
V_INLINE void b_narrow(uint8_t *to, const vi *q, const b_bytes *b, int64_t n, const bool plain) {
  (void)plain;
  const __m256i words = _mm256_adds_epi16(_mm256_packs_epi32(q[0], q[1]), b->zero);
  const __m256i fours = _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5);
  const __m256i both = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words, words), fours);
  const __m128i kept = _mm_min_epu8(_mm_max_epu8(_mm256_castsi256_si128(both), b->least), b->most);
  const __m128i bytes = _mm_xor_si128(kept, b->flip);
  if (n == 16) _mm_storeu_si128((__m128i *)(void *)to, bytes);
  else memcpy(to, &bytes, (size_t)n);
}
#else
#include "kernels/simd/bytes_vector_priv.h"
#endif
#if !defined V_AVX512 /* whole rows are as others; tables and rows of three go a byte at a time */
V_INLINE vi b_dot_at(vi sum, vi x, const int8_t *w) { return b_dot(sum, x, b_load(w)); }
enum { B_WHOLE_RUN = V_LANES };
V_INLINE int64_t b_whole_from(int64_t vector, int64_t run) { return vector * V_LANES + run; }
V_INLINE void b_zip_whole(vi *z, const uint8_t *const *row, uint8_t flip) {
  V_FOR(p, BYTES_PANELS) {
    byte_x some[V_LANES * BYTES_DEPTH];
    b_zip(some, row, p * V_LANES, V_LANES, flip);
    z[p] = b_load_x(some);
  }
}
V_INLINE void b_narrow_whole(uint8_t *to, const vi *q, const b_bytes *b, int64_t first, int64_t n, const bool plain) {
  uint8_t all[BYTES_PANELS * V_LANES];
  if (first == 0) b_narrow(to, q, b, n, plain);
  if (first == 0) return;
  b_narrow(all, q, b, n, plain);
  memcpy(to + first, all + first, (size_t)(n - first));
}
V_INLINE void b_store_threes(byte_x *to, const byte_x *a, const byte_x *b, const byte_x *c, int64_t n) {
  for (int64_t i = 0; i < n; i++, to += 3) to[0] = a[i], to[1] = b[i], to[2] = c[i];
}
enum { B_SUMMED = 1 << 22 };
typedef struct b_sums {
  vi lane[BYTES_PANELS];
} b_sums;
V_INLINE b_sums b_sums_zero(void) {
  b_sums s;
  V_FOR(p, BYTES_PANELS) s.lane[p] = vi_set(0);
  return s;
}
V_INLINE void b_sums_add(b_sums *s, const uint8_t *from, int64_t n, vi flip) {
  const vi low = vi_and(flip, vi_set(255));
  V_FOR(p, BYTES_PANELS) {
    const int64_t lanes = base_min_i64(V_LANES, n - p * V_LANES);
    if (lanes > 0) s->lane[p] = vi_add(s->lane[p], vi_xor(b_widen(from + p * V_LANES, lanes), low));
  }
}
V_INLINE void b_sums_to(const b_sums *s, vi *q) { V_FOR(p, BYTES_PANELS) q[p] = vi_add(q[p], s->lane[p]); }
typedef struct b_table {
  const uint8_t *bytes;
} b_table;
V_INLINE b_table b_table_of(const uint8_t *bytes) { return (b_table){bytes}; }
enum { B_TABLED = 64 };
V_INLINE void b_lookup(uint8_t *to, const uint8_t *from, const b_table *t, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = t->bytes[from[i]];
}
#endif
/* Weights of 1: b_dot adds elements of x by them. */
V_INLINE vi b_ones(void) { return vi_set(BYTES_DEPTH == 4 ? 0x01010101 : 0x00010001); }
enum { BYTES_ROW = BYTES_PANELS * V_LANES, BYTES_ROWS = 12 }; /* columns of a tile; its rows, at most */
#endif
