/* simd_priv.h -- the vocabulary of wide kernels: the words of simd.def, of which KERN_SIMD, the header of the level
 * KERN_LEVEL (base/levels.def, CMakeLists.txt), has those that are the level's own. Only files of wide/ include it.
 *
 * Types: vf (V_LANES floats), vi (V_LANES int32), vm (a mask of lanes). Loads and stores take any alignment of the
 * vector; `_n` forms touch the first n lanes alone, 0 <= n <= V_LANES, and give 0 in the rest; v_load_or gives `rest`
 * there. v_min and v_max give b where a or b is not a number, so v_max(limit, x) lets a NaN in x through. v_round
 * rounds to even; v_to_int too, within int32. v_fma_low is v_fma in the lower half of the lanes, anything in the rest.
 * v_any: is some lane of the mask set? V_FAR(f, x) is libm's f, a lane at a time, for what is rare.
 * V_FUSED: v_fma and v_fnma round once. V_NATIVE: vectors are the machine's, not the compiler's; V_MASKED: loads and
 * stores of some lanes cost no more than whole ones; V_REGISTERS: of vectors. v_keep(a) is a, in a register: compilers
 * would read it from memory again for each of its uses. */
#ifndef KERNELS_SIMD_PRIV_H
#define KERNELS_SIMD_PRIV_H
#include "kernels/kernels_priv.h"

#include <math.h>
#include <string.h>

/* V_INLINE: a function that becomes part of each caller. V_TEMPLATE: a large one, specialised by its constants.
 * V_UNROLL: in front of a loop of a few constant rounds; unrolls it wholly, so that arrays of vectors become registers.
 * The last two not where every access is instrumented: those builds are not for speed, and would take minutes for a
 * file of tiles. */
#define V_INLINE static inline __attribute__((always_inline, unused))
#if defined __clang__
#define V_INSTRUMENTED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define V_INSTRUMENTED 1
#else
#define V_INSTRUMENTED 0
#endif
#if V_INSTRUMENTED
#define V_TEMPLATE static __attribute__((unused))
#define V_UNROLL
#else
#define V_TEMPLATE V_INLINE
#ifdef __clang__
#define V_UNROLL _Pragma("clang loop unroll(full)")
#else
#define V_UNROLL _Pragma("GCC unroll 32")
#endif
#endif
#define V_FOR(i, n) V_UNROLL for (int i = 0; i < (n); i++)
/* An integer or pointer that the compiler may not compute ahead in another register. */
#define V_OPAQUE(x) __asm__("" : "+r"(x))

typedef float vf_any __attribute__((vector_size(4 * KERN_LANES), may_alias, aligned(1)));
typedef int32_t vs __attribute__((vector_size(4 * KERN_LANES), may_alias));
typedef uint32_t vu __attribute__((vector_size(4 * KERN_LANES), may_alias));
#include KERN_SIMD
/* What the level has to have is declared: another type is an error, and so is a word that is called and not there. */
#define SAME(result, word, operands, value) \
  V_INLINE result word operands { return value; }
#define OWN(result, word, operands) V_INLINE result word operands;
#define KERNEL OWN
#if V_NATIVE
#define PLAIN(result, word, operands, value) OWN(result, word, operands)
#define EACH(word, function) OWN(vf, word, (vf a))
#define COMPARE(word, operator) OWN(vm, word, (vf a, vf b))
#else
#define PLAIN SAME
#define EACH(word, function)         \
  V_INLINE vf word(vf a) {           \
    V_EACH(i) a[i] = function(a[i]); \
    return a;                        \
  }
#define COMPARE(word, operator) SAME(vm, word, (vf a, vf b), a operator b)
#endif
#include "kernels/simd/simd.def"

/* KERN_NAME(function): that of the level. KERN_PART_NAME: that of the part of it that has the rows, or of the level. */
#define KERN_PASTE(function, level) kern_##function##_##level
#define KERN_OF(function, level) KERN_PASTE(function, level)
#define KERN_NAME(function) KERN_OF(function, KERN_LEVEL)
#define KERN_PART_NAME(function) KERN_OF(function, KERN_ROWS_OF)

extern const struct kern_fused_level KERN_NAME(fused_level);
extern const struct kern_packing KERN_NAME(packing);
extern const kern_row_list KERN_PART_NAME(row_list);
#define KERNEL(...)
#define WIDE(family, flags, function) td_status KERN_NAME(function)(const base_call *call);
#define VECTORS WIDE
#define RARE WIDE
#define BYTES(family, flags, function) td_status KERN_PART_NAME(function)(const base_call *call);
#define BF16 BYTES
#define TILES(family, bits, ...) BYTES(family, __VA_ARGS__)
#include "kernels/kernels.def"
#undef KERNEL
#undef WIDE
#undef VECTORS
#undef RARE
#undef BYTES
#undef BF16
#undef TILES

static __attribute__((noinline, cold, unused)) vf v_far(vf x, double (*function)(double)) {
  float lanes[V_LANES];
  v_store(lanes, x);
  for (int i = 0; i < V_LANES; i++) lanes[i] = (float)function((double)lanes[i]);
  return v_load(lanes);
}
#define V_FAR(function, x) v_far(x, function)

/* Transposes a square of V_LANES rows of pitch `pitch` into `to`, of pitch `to_pitch`. */
V_INLINE void v_transpose_square(float *to, int64_t to_pitch, const float *from, int64_t pitch) {
  vf square[V_LANES];
  V_FOR(i, V_LANES) square[i] = v_load(from + i * pitch);
  v_transpose(square);
  V_FOR(i, V_LANES) v_store(to + i * to_pitch, square[i]);
}
#endif
