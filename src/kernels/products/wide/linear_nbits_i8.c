/* linear_nbits_i8.c -- KERN_LINEAR_NBITS_I8: td::linear_nbits with x_bits of 8 or 16. A block of a row of x becomes
 * whole numbers with a sign and a scale; a block's sum is exact, and added to the row's in f32: tiles change no bit. */
#include "kernels/products/pack_nbits.h"
#include "kernels/products/product_i8_priv.h"
#include "kernels/tasks_priv.h"

#include <math.h>

enum {
  PANELS = 4,      /* of a tile, at most */
  SUMS = 12,       /* vectors of a tile, at most: those of a block, in registers */
  CHUNK = 48,      /* rows that are quantised at once: whole tiles, at most 64 */
  BYTES = 4,       /* of a word; and elements that are quantised together */
  AHEAD = 1024,    /* bytes by which words are fetched ahead */
  BLOCKS_AHEAD = 4 /* blocks by which scales are */
};

/* Rows of x: bytes `pitch` apart, and of each block a scale and the sum of its numbers times -1, or times minus the
 * zero point where that is the same everywhere. Numbers of 16 bits stand in the pairs that words of weights have
 * in bits 0 and 16, 4 and 20...: of four 0 and 2, 1 and 3; of eight of 4 bits 0 and 2, 4 and 6, 1 and 3, 5 and 7. */
typedef struct quantised {
  int64_t pitch;
  uint8_t *q;
  float *scales;
  int32_t *sums;
  uint64_t odd; /* a bit for each row that holds something not finite: it is multiplied as it is */
} quantised;

typedef struct nbits_i8 {
  const base_call *call;
  kern_nbits l;
  const uint8_t *w;
  int64_t m, x_pitch, x_bits;
  quantised rows;
  kern_epilogue e;
} nbits_i8;

/* sum += products of four bytes of w, from 0 on, and of x; with x of 16 bits of a pair of each. Without VNNI bytes of w
 * are below 16: pairs of products then fit 16 bits. */
#if BYTES_BY_FOURS
V_INLINE vi dot(vi sum, vi w, vi x, const int x_bits) {
  return x_bits == 16 ? b_dot_pair(sum, w, x) : b_dot(sum, w, x);
}
#else
V_INLINE vi dot(vi sum, vi w, vi x, const int x_bits) {
  (void)x_bits;
  return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), _mm256_set1_epi16(1)));
}
#endif

V_INLINE vi load_words(const uint8_t *from) { return b_load_i32((const int32_t *)(const void *)from); }

/* A tile: out[row][column] = rows of x, from `row` on, times panels from `panel` on. */
typedef struct nbits_tile {
  const nbits_i8 *p;
  int64_t row, panel;
  float *out; /* rows of the panels side by side */
} nbits_tile;

/* What the sums of a block begin with: the zero point of each column times minus the sum of x, which stands multiplied
 * by the middle where there are none. */
V_TEMPLATE void start_sums(const nbits_tile *t, int64_t block, vi *sum, const int rows, const int panels) {
  const kern_nbits *l = &t->p->l;
  const int32_t *of_x = t->p->rows.sums + t->row * l->blocks + block;
  const uint32_t in = (uint32_t)(block & (l->per - 1)), at = in % BYTES * 8 + in / BYTES * 4;
  if (!l->zeros) {
    V_FOR(r, rows) V_FOR(p, panels) sum[r * panels + p] = vi_set(of_x[r * l->blocks]);
    return;
  }
  V_FOR(p, panels) {
    const int64_t word = (t->panel + p) * l->zero_words + block / l->per;
    const vi words = load_words(t->p->w + l->zeros_at + word * V_LANES * 4);
    const vi zero = vi_and(vi_shr(words, at), vi_set((1 << l->bits) - 1));
    V_FOR(r, rows) sum[r * panels + p] = b_multiply(zero, vi_set(of_x[r * l->blocks]));
  }
}

/* How words are cut: what stands in `mask` is multiplied, then they move on by `step` bits. */
typedef struct cut_of {
  vi mask, step;
} cut_of;

/* sum += the next part of each word times x, whose rows are `pitch` bytes apart. */
V_TEMPLATE void multiply(const cut_of *cut, const uint8_t *x, int64_t pitch, vi *word, vi *sum, const int rows,
                         const int panels, const int x_bits) {
  vi b[PANELS];
  V_FOR(p, panels) b[p] = vi_and(word[p], cut->mask);
  V_FOR(r, rows) {
    int32_t some;
    memcpy(&some, x + r * pitch, sizeof some);
    const vi a = vi_set(some);
    V_FOR(p, panels) sum[r * panels + p] = dot(sum[r * panels + p], b[p], a, x_bits);
  }
  V_FOR(p, panels) word[p] = x_bits == 8 ? vi_shr(word[p], 4) : b_shr(word[p], cut->step);
}

/* `known`: bits of a weight, where the compiler is to know them; 0: it is not. */
V_TEMPLATE void tile(const nbits_tile *t, const int rows, const int panels, const int x_bits, const int known) {
  const nbits_i8 *n = t->p;
  const kern_nbits *l = &n->l;
  const int64_t bits = known ? known : l->bits, rounds = x_bits / bits, in_block = l->block / l->per;
  const cut_of cut = {vi_set((int32_t)(((1u << bits) - 1) * (x_bits == 16 ? 0x00010001u : 0x01010101u))),
                      vi_set(x_bits == 16 ? (int32_t)bits : 4)};
  const uint8_t *x = n->rows.q + t->row * n->rows.pitch;
  const uint8_t *w = n->w + l->words_at + t->panel * l->words * V_LANES * 4;
  vf total[SUMS]; /* in registers where they are enough, else t->out */
  V_FOR(i, rows * panels) {
    if (known) total[i] = v_zero();
    else v_store(t->out + i * V_LANES, v_zero());
  }
  for (int64_t block = 0; block < l->blocks; block++) {
    vi sum[SUMS];
    const int64_t words = base_min_i64(in_block, l->words - block * in_block);
    start_sums(t, block, sum, rows, panels);
    for (int64_t i = 0; i < words; i++, w += V_LANES * 4) {
      vi word[PANELS];
      V_FOR(p, panels) {
        word[p] = load_words(w + p * l->words * V_LANES * 4);
        __builtin_prefetch(w + p * l->words * V_LANES * 4 + AHEAD);
      }
      if (known) {
        V_FOR(round, x_bits / known) {
          multiply(&cut, x + round * BYTES, n->rows.pitch, word, sum, rows, panels, x_bits);
        }
      } else {
        for (int64_t round = 0; round < rounds; round++)
          multiply(&cut, x + round * BYTES, n->rows.pitch, word, sum, rows, panels, x_bits);
      }
      x += rounds * BYTES;
    }
    const float *scales = (const float *)(const void *)n->w + (t->panel * l->blocks + block) * V_LANES;
    V_FOR(p, panels) __builtin_prefetch(scales + (p * l->blocks + BLOCKS_AHEAD) * V_LANES);
    V_FOR(r, rows) {
      const vf of_x = v_set(n->rows.scales[(t->row + r) * l->blocks + block]);
      V_FOR(p, panels) {
        const int i = r * panels + p;
        float *to = t->out + i * V_LANES;
        const vf scale = v_mul(of_x, v_load(scales + p * l->blocks * V_LANES)), block_sum = v_from_int(sum[i]);
        if (known) total[i] = v_fma(block_sum, scale, total[i]);
        else v_store(to, v_fma(block_sum, scale, v_load(to)));
      }
    }
  }
  if (known) V_FOR(i, rows * panels) v_store(t->out + i * V_LANES, total[i]);
}

/* Loops for tiles of so many rows and panels. */
typedef void nbits_run(const nbits_tile *t);
typedef struct nbits_loop {
  int64_t rows, panels;
  nbits_run *run[2][2]; /* weights of 4 bits, of 8; x of 8, of 16; NULL: there is none */
} nbits_loop;
#define TILE_4(r, p) \
  static void bytes_4_##r##_##p(const nbits_tile *t) { tile(t, r, p, 8, 4); }
#if BYTES_BY_FOURS
#define PAIRS_4(r, p) \
  static void pairs_4_##r##_##p(const nbits_tile *t) { tile(t, r, p, 16, 4); }
#define TILE_8(r, p)                                                          \
  static void bytes_8_##r##_##p(const nbits_tile *t) { tile(t, r, p, 8, 0); } \
  static void pairs_8_##r##_##p(const nbits_tile *t) { tile(t, r, p, 16, 0); }
#define FOR_8(r, p) \
  { bytes_8_##r##_##p, pairs_8_##r##_##p }
#define FOR_4(r, p) \
  { bytes_4_##r##_##p, pairs_4_##r##_##p }
TILE_4(6, 2)
TILE_4(2, 4)
TILE_4(1, 4)
PAIRS_4(6, 2)
PAIRS_4(2, 4)
PAIRS_4(1, 4)
TILE_8(6, 2)
TILE_8(1, 4)
TILE_8(1, 1)
/* Few rows times weights of 8 bits are seldom, single panels are the last ones: they are not worth more code. */
static const nbits_loop loops[] = {{6, 2, {FOR_4(6, 2), FOR_8(6, 2)}},
                                   {2, 4, {FOR_4(2, 4)}},
                                   {1, 4, {FOR_4(1, 4), FOR_8(1, 4)}},
                                   {1, 1, {FOR_8(1, 1), FOR_8(1, 1)}}};
#else
TILE_4(2, 4)
TILE_4(1, 4)
TILE_4(1, 1)
static const nbits_loop loops[] = {{2, 4, {{bytes_4_2_4}}}, {1, 4, {{bytes_4_1_4}}}, {1, 1, {{bytes_4_1_1}}}};
#endif

static const float *row_of(const nbits_i8 *n, int64_t row) {
  return (const float *)base_in(n->call, 0)->data + row * n->x_pitch;
}

static nbits_run *run_of(const nbits_i8 *n, const nbits_loop *loop) {
  return loop->run[n->l.bits == 8][n->x_bits == 16];
}

/* A tile of `loop`; rows of the chunk are rows of the output from `first` on. */
static void run_tile(const nbits_i8 *n, const nbits_loop *loop, int64_t first, int64_t row, int64_t panel) {
  const base_tensor *out = base_out(n->call, 0);
  const int64_t pitch = kern_pitch(out), width = loop->panels * V_LANES;
  const int64_t column = panel * V_LANES, columns = base_min_i64(width, n->l.n - column);
  _Alignas(64) float sums[SUMS * V_LANES];
  run_of(n, loop)(&(nbits_tile){.p = n, .row = row, .panel = panel, .out = sums});
  for (int64_t r = 0; n->rows.odd && r < loop->rows; r++)
    for (int64_t c = 0; n->rows.odd >> (row + r) & 1 && c < columns; c++)
      sums[r * width + c] = kern_nbits_multiply(&n->l, n->w, column + c, row_of(n, first + row + r));
  const kern_epilogue e = kern_epilogue_at(&n->e, first + row, column);
  KERN_NAME(epilogue_rows)(&e, sums, width, loop->rows, columns);
  for (int64_t r = 0; r < loop->rows; r++)
    memcpy((float *)out->data + (first + row + r) * pitch + column, sums + r * width, (size_t)columns * sizeof *sums);
}

/* Rows [0, count) of the chunk times panels [panel, end): the largest tiles that fit. */
static void multiply_rows(const nbits_i8 *n, int64_t first, int64_t count, int64_t panel, int64_t end) {
  for (int64_t wide; panel < end; panel += wide) {
    wide = end - panel >= PANELS ? PANELS : 1;
    for (int64_t row = 0; row < count;) {
      const nbits_loop *loop = loops;
      while (loop->rows > count - row || loop->panels > wide || !run_of(n, loop)) loop++;
      for (int64_t p = 0; p < wide; p += loop->panels) run_tile(n, loop, first, row, panel + p);
      row += loop->rows;
    }
  }
}

/* A block of x: its scale, its numbers and their sum. One that holds something not finite has a scale that is no
 * number. */
static void quantise_block(const nbits_i8 *n, const float *x, int64_t count, uint8_t *q, float *scale, int32_t *sum) {
  int32_t numbers[V_LANES] = {0};
  vf most = v_zero(), odd = v_zero();
  vi total = vi_set(0);
  for (int64_t i = 0; i < count; i += V_LANES) {
    const vf a = v_load_n(x + i, base_min_i64(V_LANES, count - i));
    most = v_max(v_abs(a), most);
    odd = v_fma(a, v_zero(), odd);
  }
  const float largest = v_highest(most);
  const vf by = v_set(kern_nbits_x_scale(largest, n->x_bits, scale));
  *scale += v_sum(odd);
  for (int64_t i = 0; i < count; i += V_LANES) {
    const int64_t lanes = base_min_i64(V_LANES, count - i);
    const vi a = v_to_int(v_round(v_mul(v_load_n(x + i, lanes), by)));
    total = vi_add(total, a);
#if BYTES_BY_FOURS
    if (n->x_bits == 16) {
      b_store_pairs((int16_t *)(void *)q + i, a, lanes, n->l.bits);
      continue;
    }
#endif
    b_store(q + i, a, lanes);
  }
  b_store_i32(numbers, total);
  uint32_t all = 0; /* wraps where a number is none */
  for (int64_t i = 0; i < V_LANES; i++) all += (uint32_t)numbers[i];
  *sum = (int32_t)all;
}

static void quantise_rows(nbits_i8 *n, int64_t first, int64_t count) {
  quantised *to = &n->rows;
  const uint32_t middle = n->l.zeros ? (uint32_t)-1 : (uint32_t)-1 << (n->l.bits - 1);
  to->odd = 0;
  for (int64_t r = 0; r < count; r++) {
    const float *x = row_of(n, first + r);
    uint8_t *q = to->q + r * to->pitch;
    const int64_t size = n->x_bits / 8;
    memset(q + n->l.k * size, 0, (size_t)(to->pitch - n->l.k * size));
    for (int64_t b = 0; b < n->l.blocks; b++) {
      const int64_t at = b * n->l.block, length = base_min_i64(n->l.block, n->l.k - at), i = r * n->l.blocks + b;
      quantise_block(n, x + at, length, q + at * size, to->scales + i, to->sums + i);
      to->sums[i] = (int32_t)(middle * (uint32_t)to->sums[i]);
      to->odd |= (uint64_t)isnan(to->scales[i]) << r;
    }
  }
}

static td_status run_tasks(nbits_i8 *n) {
  const int64_t chunk = base_min_i64(CHUNK, n->m), chunks = (n->m + CHUNK - 1) / CHUNK, panels = n->l.panels;
  const int64_t quads = (panels + PANELS - 1) / PANELS, work = chunk * base_max_i64(n->l.k, 1) / BYTES * panels;
  const int64_t wanted = base_min_i64(kern_tasks_wanted(n->call->workers) / chunks, quads);
  const int64_t parts = base_max_i64(1, base_min_i64(wanted, work / kern_task_size(KERN_TASK_WORK, n->call->workers)));
  const int64_t tasks = chunks * parts;
  int64_t quantised_chunk = -1;
  n->rows.pitch = n->l.words * n->l.per * n->x_bits / 8;
  n->rows.q = base_call_scratch(n->call, (size_t)(chunk * n->rows.pitch), sizeof *n->rows.q);
  n->rows.scales = base_call_scratch(n->call, (size_t)(chunk * n->l.blocks), sizeof *n->rows.scales);
  n->rows.sums = base_call_scratch(n->call, (size_t)(chunk * n->l.blocks), sizeof *n->rows.sums);
  if (!n->rows.q || !n->rows.scales || !n->rows.sums) return base_no_memory(n->call->err, "scratch");
  for (int64_t task = base_call_first(n->call, tasks); task < tasks; task = base_call_next(n->call, task, tasks)) {
    const int64_t which = task / parts, part = task % parts, first = which * CHUNK;
    const int64_t count = base_min_i64(CHUNK, n->m - first);
    if (which != quantised_chunk) quantise_rows(n, first, count);
    quantised_chunk = which;
    multiply_rows(n, first, count, quads * part / parts * PANELS,
                  base_min_i64(panels, quads * (part + 1) / parts * PANELS));
  }
  return TD_OK;
}

td_status KERN_PART_NAME(linear_nbits_i8)(const base_call *call) {
  const base_tensor *x = base_in(call, 0);
  nbits_i8 n = {.call = call, .w = base_in(call, 1)->data, .m = 1, .x_pitch = kern_pitch(x)};
  n.x_bits = base_attr_int(call->attrs, KERN_NBITS_X_BITS);
  TRY(KERN_NAME(epilogue_of)(call, &n.e));
  if (!kern_nbits_of(call->attrs, x->dims[x->rank - 1], &n.l))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::linear_nbits: rows of %lld elements",
                     (long long)x->dims[x->rank - 1]);
  for (int32_t i = 0; i < x->rank - 1; i++) n.m *= x->dims[i];
  return n.m == 0 || n.l.n == 0 ? TD_OK : run_tasks(&n);
}
