/* linear_nbits_i8.c -- KERN_LINEAR_NBITS_I8: td::linear_nbits with x_bytes. A block of a row of x becomes whole numbers
 * of -127 to 127 and a scale; a block's sum is exact, and added to the row's in f32: tiles change no bit. */
#include "kernels/pack_nbits.h"
#include "kernels/product_i8_priv.h"
#include "kernels/tasks_priv.h"

enum {
  PANELS = 4,      /* of a tile, at most */
  SUMS = 12,       /* vectors of a tile, at most: registers hold those of a block, too */
  CHUNK = 48,      /* rows that are quantised at once: whole tiles */
  BYTES = 4,       /* of a word */
  AHEAD = 1024,    /* bytes by which words are fetched ahead */
  BLOCKS_AHEAD = 4 /* blocks by which scales are */
};

/* Rows of x: bytes `pitch` apart, and of each block a scale and the sum of its numbers times -1, or times minus the
 * zero point where that is the same everywhere. */
typedef struct quantised {
  int64_t pitch;
  int8_t *q;
  float *scales;
  int32_t *sums;
} quantised;

typedef struct nbits_i8 {
  const base_call *call;
  kern_nbits l;
  const uint8_t *w;
  int64_t m, x_pitch;
  quantised rows;
  kern_epilogue e;
} nbits_i8;

/* sum += products of four bytes of w, from 0 on, and of x. Without VNNI those of w are below 16: pairs of products then
 * fit 16 bits. */
#if BYTES_BY_FOURS
V_INLINE vi dot(vi sum, vi w, vi x) { return b_dot(sum, w, x); }
#else
V_INLINE vi dot(vi sum, vi w, vi x) {
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
V_TEMPLATE void start_sums(const nbits_tile *t, int64_t block, vi *sum, const int rows, const int panels,
                           const int bits) {
  const kern_nbits *l = &t->p->l;
  const int32_t *of_x = t->p->rows.sums + t->row * l->blocks + block;
  const int per = 32 / bits;
  const uint32_t in = (uint32_t)(block % per), at = in % BYTES * 8 + in / BYTES * 4;
  if (!l->zeros) {
    V_FOR(r, rows) V_FOR(p, panels) sum[r * panels + p] = vi_set(of_x[r * l->blocks]);
    return;
  }
  V_FOR(p, panels) {
    const int64_t word = (t->panel + p) * l->zero_words + block / per;
    const vi words = load_words(t->p->w + l->zeros_at + word * V_LANES * 4);
    const vi zero = vi_and(vi_shr(words, at), vi_set((1 << bits) - 1));
    V_FOR(r, rows) sum[r * panels + p] = b_multiply(zero, vi_set(of_x[r * l->blocks]));
  }
}

V_TEMPLATE void tile(const nbits_tile *t, const int rows, const int panels, const int bits) {
  const nbits_i8 *n = t->p;
  const kern_nbits *l = &n->l;
  const vi mask = vi_set(0x0f0f0f0f);
  const int per = 32 / bits;
  const int8_t *x = n->rows.q + t->row * n->rows.pitch;
  const uint8_t *w = n->w + l->words_at + t->panel * l->words * V_LANES * 4;
  vf total[SUMS];
  V_FOR(i, rows * panels) total[i] = v_zero();
  for (int64_t block = 0; block < l->blocks; block++) {
    vi sum[SUMS];
    const int64_t words = base_min_i64(l->block / per, l->words - block * (l->block / per));
    start_sums(t, block, sum, rows, panels, bits);
    for (int64_t i = 0; i < words; i++, w += V_LANES * 4) {
      vi word[PANELS];
      V_FOR(p, panels) {
        word[p] = load_words(w + p * l->words * V_LANES * 4);
        __builtin_prefetch(w + p * l->words * V_LANES * 4 + AHEAD);
      }
      V_FOR(round, 8 / bits) {
        vi b[PANELS];
        V_FOR(p, panels) b[p] = bits == 8 ? word[p] : vi_and(round ? vi_shr(word[p], 4) : word[p], mask);
        V_FOR(r, rows) {
          int32_t some;
          memcpy(&some, x + r * n->rows.pitch, sizeof some);
          const vi a = vi_set(some);
          V_FOR(p, panels) sum[r * panels + p] = dot(sum[r * panels + p], b[p], a);
        }
        x += BYTES;
      }
    }
    const float *scales = (const float *)(const void *)n->w + (t->panel * l->blocks + block) * V_LANES;
    V_FOR(p, panels) __builtin_prefetch(scales + (p * l->blocks + BLOCKS_AHEAD) * V_LANES);
    V_FOR(r, rows) {
      const vf of_x = v_set(n->rows.scales[(t->row + r) * l->blocks + block]);
      V_FOR(p, panels) {
        const vf scale = v_mul(of_x, v_load(scales + p * l->blocks * V_LANES));
        total[r * panels + p] = v_fma(v_from_int(sum[r * panels + p]), scale, total[r * panels + p]);
      }
    }
  }
  V_FOR(i, rows * panels) v_store(t->out + i * V_LANES, total[i]);
}

/* Loops for tiles of so many rows and panels. */
typedef struct nbits_loop {
  int64_t rows, panels;
  void (*run[2])(const nbits_tile *t); /* of 4 bits, of 8 */
} nbits_loop;
#define LOOP(r, p)                                                        \
  static void tile_4_##r##_##p(const nbits_tile *t) { tile(t, r, p, 4); } \
  static void tile_8_##r##_##p(const nbits_tile *t) { tile(t, r, p, 8); }
#define LOOP_ROW(r, p)                           \
  {                                              \
    r, p, { tile_4_##r##_##p, tile_8_##r##_##p } \
  }
LOOP(1, 1)
LOOP(1, 4)
#if BYTES_BY_FOURS
LOOP(2, 4)
LOOP(6, 2)
static const nbits_loop loops[] = {LOOP_ROW(6, 2), LOOP_ROW(2, 4), LOOP_ROW(1, 4), LOOP_ROW(1, 1)};
#else
LOOP(2, 4)
static const nbits_loop loops[] = {LOOP_ROW(2, 4), LOOP_ROW(1, 4), LOOP_ROW(1, 1)};
#endif

/* A tile of `loop`; rows of the chunk are rows of the output from `first` on. */
static void run_tile(const nbits_i8 *n, const nbits_loop *loop, int64_t first, int64_t row, int64_t panel) {
  const base_tensor *out = base_out(n->call, 0);
  const int64_t pitch = kern_pitch(out), width = loop->panels * V_LANES;
  const int64_t column = panel * V_LANES, columns = base_min_i64(width, n->l.n - column);
  _Alignas(64) float sums[SUMS * V_LANES];
  loop->run[n->l.bits == 8](&(nbits_tile){.p = n, .row = row, .panel = panel, .out = sums});
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
      while (loop->rows > count - row || loop->panels > wide) loop++;
      for (int64_t p = 0; p < wide; p += loop->panels) run_tile(n, loop, first, row, panel + p);
      row += loop->rows;
    }
  }
}

/* A block of x: its scale, its numbers and their sum. One that holds something not finite has a scale that is no
 * number. */
static void quantise_block(const float *x, int64_t count, int8_t *q, float *scale, int32_t *sum) {
  vf most = v_zero(), odd = v_zero(), total = v_zero();
  for (int64_t i = 0; i < count; i += V_LANES) {
    const vf a = v_load_n(x + i, base_min_i64(V_LANES, count - i));
    most = v_max(v_abs(a), most);
    odd = v_fma(a, v_zero(), odd);
  }
  const float largest = v_highest(most);
  const vf by = v_set(kern_nbits_x_scale(largest, scale));
  *scale += v_sum(odd);
  for (int64_t i = 0; i < count; i += V_LANES) {
    const int64_t lanes = base_min_i64(V_LANES, count - i);
    const vf a = v_round(v_mul(v_load_n(x + i, lanes), by));
    total = v_add(total, a);
    b_store((uint8_t *)q + i, v_to_int(a), lanes);
  }
  *sum = (int32_t)v_sum(total);
}

static void quantise_rows(const nbits_i8 *n, int64_t first, int64_t count) {
  const quantised *to = &n->rows;
  for (int64_t r = 0; r < count; r++) {
    const float *x = (const float *)base_in(n->call, 0)->data + (first + r) * n->x_pitch;
    int8_t *q = to->q + r * to->pitch;
    memset(q + n->l.k, 0, (size_t)(to->pitch - n->l.k));
    for (int64_t b = 0; b < n->l.blocks; b++) {
      const int64_t at = b * n->l.block, length = base_min_i64(n->l.block, n->l.k - at), i = r * n->l.blocks + b;
      quantise_block(x + at, length, q + at, to->scales + i, to->sums + i);
      to->sums[i] *= n->l.zeros ? -1 : -(1 << (n->l.bits - 1));
    }
  }
}

static td_status run_tasks(nbits_i8 *n) {
  const int64_t chunk = base_min_i64(CHUNK, n->m), chunks = (n->m + CHUNK - 1) / CHUNK, panels = n->l.panels;
  const int64_t quads = (panels + PANELS - 1) / PANELS, work = chunk * base_max_i64(n->l.k, 1) / BYTES * panels;
  const int64_t wanted = base_min_i64(kern_tasks_wanted(n->call->workers) / chunks, quads);
  const int64_t parts = base_max_i64(1, base_min_i64(wanted, work / KERN_TASK_WORK)), tasks = chunks * parts;
  int64_t quantised_chunk = -1;
  n->rows.pitch = n->l.words * n->l.per;
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
  TRY(KERN_NAME(epilogue_of)(call, &n.e));
  if (!kern_nbits_of(call->attrs, x->dims[x->rank - 1], &n.l))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::linear_nbits: rows of %lld elements",
                     (long long)x->dims[x->rank - 1]);
  for (int32_t i = 0; i < x->rank - 1; i++) n.m *= x->dims[i];
  return n.m == 0 || n.l.n == 0 ? TD_OK : run_tasks(&n);
}
