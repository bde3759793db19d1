/* winograd.c -- KERN_WINOGRAD: td::winograd_conv, F(2x2, 3x3) and F(4x4, 3x3) after Lavin and Gray 2015, in f32.
 *
 * The outputs of a plane are cut into tiles of 2x2 or 4x4, the tiles into groups whose transformed inputs stay in the
 * second-level cache, or whose weights come from far for few of them:
 *
 *     x --Bt d B--> v[element][tile][channel in] --products--> sums[element][tile][channel] --At s A--> y
 *
 * Every one of the 16 or 36 elements is a matrix product of its own, with its own matrix of the packed weights
 * (pack_winograd.h). A task is a group and a chunk of output channels; the tasks of a group stand side by side, and a
 * worker that takes two of them transforms the inputs once.
 *
 * Volumes: a kernel of several planes is a product along its taps in depth, too, whose rows are the same tile of other
 * planes. So a group has a few tiles of all planes, transformed once, and its rows share the weights, which are many.
 * A window dilated by d is one of neighbours among every d-th pixel: the pixels fall into d x d phases, each with tiles
 * of its own.
 *
 * Groups of channels: each is a product of its own ("product" here, a group is one of tiles), or as many as share a
 * panel are. Small products are done together as a set, so that a tile's channels are transformed some vectors at a
 * time.
 *
 * Error: relative root mean square against a convolution in double, over 64, 128, 256 and 512 channels of uniform
 * noise: F(2x2) 2.6e-7, 3.5e-7, 5.0e-7, 7.0e-7; F(4x4) 7.4e-7, 9.8e-7, 1.7e-6, 2.1e-6 (tests/kernels/test_winograd.c).
 * A plain sum in f32 has about that of F(2x2).
 *
 * Infinities and NaN: the four corners of a transformed tile together see each of its pixels, and one channel of their
 * sums sees all channels in. So these sums times 0 are 0 unless some input is not finite (or something overflows, which
 * costs time alone); winograd_nonfinite.h says what is done then.
 *
 * Bits: a tile does not see its neighbours, and a product adds along the channels in order, so that groups, chunks and
 * workers make no difference. */
#include "kernels/products/conv.h"
#include "kernels/products/conv_groups_priv.h"
#include "kernels/products/epilogue_priv.h"
#include "kernels/products/gemm_tile_priv.h"
#include "kernels/products/pack_winograd.h"
#include "kernels/tuning.h"
#include "kernels/products/winograd_nonfinite.h"
#include "kernels/tasks_priv.h"

enum {
  SIDE = 6, /* of F(4x4, 3x3), the larger form */
  TILE = 4,
  ELEMENTS = SIDE * SIDE,
  BLOCK = 64,             /* output channels whose sums are made before they are transformed */
  GROUP_TILES = 18,       /* more change little */
  NEAR_WEIGHTS = 1 << 18, /* floats of weights that groups find in a near cache again */
  FAR_TILES = 52,         /* of a group that reads others: they come from far for each */
  GROUP_PLANES = 16,
  VOLUME_ROWS = 64 /* tiles of all planes of a group: weights of several taps come from far */
};

#define P KERN_WINOGRAD_P
#define Q KERN_WINOGRAD_Q

/* ---- transforms: see pack_winograd.h for the third ---- */

/* v = Bt d */
V_INLINE void transform_inputs(const vf *d, vf *v, const int tile) {
  if (tile == 2) {
    v[0] = v_sub(d[0], d[2]);
    v[1] = v_add(d[1], d[2]);
    v[2] = v_sub(d[2], d[1]);
    v[3] = v_sub(d[1], d[3]);
    return;
  }
  const vf p2 = v_set(P * P), q2 = v_set(Q * Q), product = v_set(P * P * Q * Q), sum = v_set(P * P + Q * Q);
  vf even_p = v_fnma(q2, d[2], d[4]), odd_p = v_fnma(q2, d[1], d[3]);
  vf even_q = v_fnma(p2, d[2], d[4]), odd_q = v_fnma(p2, d[1], d[3]);
  v[0] = v_fma(product, d[0], v_fnma(sum, d[2], d[4]));
  v[1] = v_fma(v_set(P), odd_p, even_p);
  v[2] = v_fnma(v_set(P), odd_p, even_p);
  v[3] = v_fma(v_set(Q), odd_q, even_q);
  v[4] = v_fnma(v_set(Q), odd_q, even_q);
  v[5] = v_fma(product, d[1], v_fnma(sum, d[3], d[5]));
}

/* y = At s */
V_INLINE void transform_sums(const vf *s, vf *y, const int tile) {
  if (tile == 2) {
    y[0] = v_add(v_add(s[0], s[1]), s[2]);
    y[1] = v_sub(v_sub(s[1], s[2]), s[3]);
    return;
  }
  vf even_p = v_add(s[1], s[2]), odd_p = v_sub(s[1], s[2]);
  vf even_q = v_add(s[3], s[4]), odd_q = v_sub(s[3], s[4]);
  y[0] = v_add(v_add(s[0], even_p), even_q);
  y[1] = v_fma(v_set(Q), odd_q, v_mul(v_set(P), odd_p));
  y[2] = v_fma(v_set(Q * Q), even_q, v_mul(v_set(P * P), even_p));
  y[3] = v_fma(v_set(Q * Q * Q), odd_q, v_fma(v_set(P * P * P), odd_p, s[5]));
}

/* One vector of channels of a tile: pixels[row * side + column] + c to to[element * plane]. */
V_INLINE void tile_in(const float *const *pixels, int64_t c, int64_t lanes, float *to, int64_t plane, const int tile) {
  const int side = tile + 2;
  vf half[SIDE][SIDE]; /* [column][row] */
  V_FOR(j, side) {
    vf d[SIDE];
    V_FOR(i, side) {
      const float *from = pixels[i * side + j] + c;
      d[i] = lanes == V_LANES ? v_load(from) : v_load_n(from, lanes);
    }
    transform_inputs(d, half[j], tile);
  }
  V_FOR(i, side) {
    vf d[SIDE], v[SIDE];
    V_FOR(j, side) d[j] = half[j][i];
    transform_inputs(d, v, tile);
    V_FOR(j, side) {
      if (lanes == V_LANES) v_store(to, v[j]);
      else v_store_n(to, v[j], lanes);
      to += plane;
      V_OPAQUE(to);
    }
  }
}

/* Where a tile's outputs go, and what is done to them first. */
typedef struct tile_target {
  float *y;              /* first pixel */
  int64_t row, column;   /* elements from row to row and from pixel to pixel */
  int64_t rows, columns; /* pixels that exist */
  const float *residual; /* or NULL */
  int64_t residual_row, residual_column;
  const float *bias;       /* or NULL */
  float early[2], late[2]; /* limits before and after the residual */
} tile_target;

V_INLINE void tile_out(const float *from, int64_t plane, const tile_target *t, int64_t c, int64_t lanes, bool whole,
                       const int tile) {
  const int side = tile + 2;
  vf half[SIDE][TILE]; /* [row][column] */
  from += c;
  V_FOR(i, side) {
    vf s[SIDE];
    V_FOR(j, side) {
      s[j] = v_load(from);
      from += plane;
      V_OPAQUE(from);
    }
    transform_sums(s, half[i], tile);
  }
  const vf bias = t->bias ? v_load_n(t->bias + c, lanes) : v_zero();
  const vf early_low = v_set(t->early[0]), early_high = v_set(t->early[1]);
  const vf late_low = v_set(t->late[0]), late_high = v_set(t->late[1]);
  V_FOR(j, tile) {
    vf s[SIDE], y[TILE];
    V_FOR(i, side) s[i] = half[i][j];
    transform_sums(s, y, tile);
    V_FOR(i, tile) {
      if (!whole && (i >= t->rows || j >= t->columns)) continue;
      int64_t at = i * t->row + j * t->column + c;
      vf out = v_min(early_high, v_max(early_low, v_add(y[i], bias)));
      if (t->residual) {
        const float *from_more = t->residual + (i * t->residual_row + j * t->residual_column + c);
        vf more = lanes == V_LANES ? v_load(from_more) : v_load_n(from_more, lanes);
        out = v_min(late_high, v_max(late_low, v_add(out, more)));
      }
      if (lanes == V_LANES) v_store(t->y + at, out);
      else v_store_n(t->y + at, out, lanes);
    }
  }
}

/* ---- tiles ---- */

typedef struct form {
  /* All channels of a tile, and a block of channels of its sums. */
  void (*in)(const float *const *pixels, int64_t channels, float *to, int64_t plane);
  void (*out)(const float *from, int64_t plane, const tile_target *t, int64_t channels);
} form;

#define FORM(tile)                                                                                                    \
  static void in_##tile(const float *const *pixels, int64_t channels, float *to, int64_t plane) {                     \
    int64_t c = 0;                                                                                                    \
    for (; c + V_LANES <= channels; c += V_LANES) tile_in(pixels, c, V_LANES, to + c, plane, tile);                   \
    if (c < channels) tile_in(pixels, c, channels - c, to + c, plane, tile);                                          \
  }                                                                                                                   \
  static void out_##tile(const float *from, int64_t plane, const tile_target *t, int64_t channels) {                  \
    int64_t c = 0;                                                                                                    \
    if (t->rows == tile && t->columns == tile)                                                                        \
      for (; c + V_LANES <= channels; c += V_LANES) tile_out(from, plane, t, c, V_LANES, true, tile);                 \
    for (; c < channels; c += V_LANES) tile_out(from, plane, t, c, base_min_i64(channels - c, V_LANES), false, tile); \
  }
FORM(2)
FORM(4)
static const form forms[] = {{in_2, out_2}, {in_4, out_4}};

/* ---- groups ---- */

typedef struct job {
  kern_conv conv;
  const form *form;
  int64_t tile, elements;
  int64_t products, shared;     /* of the convolution; groups of channels that are one, as they share a panel */
  int64_t in, out;              /* channels of a product */
  int64_t tiles_across, tiles;  /* of a phase; of a plane */
  int64_t phase_tiles;          /* of a phase */
  int64_t slabs, slab_planes;   /* of a sample; output planes of the largest */
  int64_t groups, group_tiles;  /* of a slab; tiles of a plane in the largest */
  int64_t sets, together;       /* of products; products in the largest */
  int64_t panels, block_panels; /* of a product's output channels; of a block's */
  const kern_tuning *tuning;
  int64_t chunks, chunk_panels; /* the output channels of a task: whole blocks */
  const float *x, *u;
  float *y;
  int64_t x_pitch, y_pitch; /* floats from pixel to pixel */
  kern_epilogue epilogue;
  bool cheap; /* all of the epilogue is bias, residual and limits */
  /* Of the worker: */
  float *v, *sums, *zeros;
  int64_t v_plane, sums_plane;
  bool finite; /* false: v has zeros for inputs that are not finite, of which there are some */
} job;

/* Tiles [first, end) of output planes [plane, last) of a sample, a set's products of them, and the input planes that
 * they see. Rows of v go by input plane and tile, rows of sums by output plane and tile. */
typedef struct group {
  int64_t sample, plane, last, first, end;
  int64_t product, products;
  int64_t in_first, in_last;
} group;

static int64_t group_tiles(const group *g) { return g->end - g->first; }

static group group_of(const job *j, int64_t number) {
  const kern_conv_axis *d = &j->conv.axis[0];
  int64_t part = number % j->groups, set = number / j->groups % j->sets, slab = number / j->groups / j->sets % j->slabs;
  group g = {.sample = number / j->groups / j->sets / j->slabs,
             .plane = gemm_split(d->out, j->slabs, slab),
             .last = gemm_split(d->out, j->slabs, slab + 1),
             .first = gemm_split(j->tiles, j->groups, part),
             .end = gemm_split(j->tiles, j->groups, part + 1),
             .product = gemm_split(j->products, j->sets, set),
             .products = gemm_split(j->products, j->sets, set + 1)};
  g.products -= g.product;
  int64_t behind = (g.last - 1) * d->stride - d->begin + (d->kernel - 1) * d->dilation + 1;
  g.in_first = base_min_i64(base_max_i64(g.plane * d->stride - d->begin, 0), d->in);
  g.in_last = base_max_i64(base_min_i64(behind, d->in), g.in_first);
  return g;
}

/* The first output pixel of a tile of a plane; the others are a dilation apart. */
static void tile_place(const job *j, int64_t tile, int64_t *row, int64_t *column) {
  const kern_conv_axis *h = &j->conv.axis[1], *w = &j->conv.axis[2];
  int64_t phase = tile / j->phase_tiles, at = tile % j->phase_tiles;
  *row = phase / w->dilation + at / j->tiles_across * j->tile * h->dilation;
  *column = phase % w->dilation + at % j->tiles_across * j->tile * w->dilation;
}

/* A tile's inputs again, with zeros for those that are not finite. */
static void transform_finite(const job *j, const float *const *pixels, int64_t channels, float *to) {
  float finite[ELEMENTS][V_LANES];
  const float *from[ELEMENTS];
  for (int64_t c = 0; c < channels; c += V_LANES) {
    const int64_t count = base_min_i64(channels - c, V_LANES);
    for (int64_t e = 0; e < j->elements; e++) {
      from[e] = finite[e];
      for (int64_t i = 0; i < count; i++) finite[e][i] = isfinite(pixels[e][c + i]) ? pixels[e][c + i] : 0;
    }
    j->form->in(from, count, to + c, j->v_plane);
  }
}

static void transform_tile(const job *j, const float *plane, int64_t tile, int64_t channels, float *to) {
  const kern_conv_axis *h = &j->conv.axis[1], *w = &j->conv.axis[2];
  const int64_t side = j->tile + 2;
  const float *pixels[ELEMENTS];
  int64_t row, column;
  tile_place(j, tile, &row, &column);
  row -= h->begin;
  column -= w->begin;
  for (int64_t i = 0; i < side; i++)
    for (int64_t k = 0; k < side; k++) {
      int64_t y = row + i * h->dilation, x = column + k * w->dilation;
      bool inside = y >= 0 && y < h->in && x >= 0 && x < w->in;
      pixels[i * side + k] = inside ? plane + (y * w->in + x) * j->x_pitch : j->zeros;
    }
  if (j->finite) j->form->in(pixels, channels, to, j->v_plane);
  else transform_finite(j, pixels, channels, to);
}

/* Fetches what the tile `tiles` further on reads and the one before it does not: the products hide the way. */
static void fetch_tile(const job *j, const float *plane, int64_t tile, int64_t tiles) {
  enum { FLOATS = 16 }; /* of a line */
  const kern_conv_axis *h = &j->conv.axis[1], *w = &j->conv.axis[2];
  int64_t row, column;
  if (tile + tiles >= j->phase_tiles || w->dilation > 1) return;
  tile_place(j, tile + tiles, &row, &column);
  const int64_t floats = base_min_i64(j->tile, w->in - column) * j->x_pitch;
  for (int64_t i = 0; i < j->tile && row + i * h->dilation < h->in; i++) {
    const float *from = plane + ((row + i * h->dilation) * w->in + column) * j->x_pitch;
    for (int64_t at = 0; at < floats; at += FLOATS) __builtin_prefetch(from + at, 0, 2);
  }
}

static void group_in(const job *j, const group *g) {
  const int64_t plane_floats = j->conv.axis[1].in * j->conv.axis[2].in * j->x_pitch;
  const float *x = j->x + g->sample * j->conv.in_size * j->x_pitch + g->product * j->in;
  const int64_t channels = g->products * j->in;
  float *to = j->v;
  for (int64_t z = g->in_first; z < g->in_last; z++)
    for (int64_t t = g->first; t < g->end; t++, to += channels) {
      fetch_tile(j, x + z * plane_floats, t, g->end - g->first);
      transform_tile(j, x + z * plane_floats, t, channels, to);
    }
}

/* Output planes [plane, end) that have the same taps in depth inside the image: [tap, last_tap). */
typedef struct run {
  int64_t plane, end, tap, last_tap;
} run;

static void taps_inside(const kern_conv_axis *d, int64_t plane, int64_t *first, int64_t *last) {
  int64_t from = plane * d->stride - d->begin, before = base_max_i64(-from, 0), room = base_max_i64(d->in - from, 0);
  *first = base_min_i64((before + d->dilation - 1) / d->dilation, d->kernel);
  *last = base_max_i64(base_min_i64((room + d->dilation - 1) / d->dilation, d->kernel), *first);
}

static run run_from(const job *j, const group *g, int64_t plane) {
  const kern_conv_axis *d = &j->conv.axis[0];
  run r = {.plane = plane, .end = plane + 1};
  taps_inside(d, plane, &r.tap, &r.last_tap);
  for (int64_t tap, last; r.end < g->last; r.end++) {
    taps_inside(d, r.end, &tap, &last);
    if (tap != r.tap || last != r.last_tap) break;
  }
  return r;
}

/* Floats of a panel of an element's weights: all taps in depth, each with the channels in of a group. */
static int64_t panel_floats(const job *j) { return j->conv.axis[0].kernel * j->conv.group_in * V_LANES; }

/* What to fetch while part `part` of the rows meets panels [from, next) of element e: one of the panels behind them,
 * each part another. Weights come from memory; without this they would come in bursts with the first part. */
static int64_t ahead_of(const job *j, int64_t e, int64_t from, int64_t next, int64_t panels, int64_t part) {
  int64_t planes = next >= panels, to = planes ? part : next + part;
  if (part >= next - from || to >= panels || e + planes == j->elements) return 0;
  return (planes * j->products * j->panels + to - from) * panel_floats(j);
}

/* Rows [row, row + rows) of a run: a[tap][row] of the plane of an element that begins at v. */
static void fill_rows(const job *j, const group *g, const run *r, const float *v, int64_t row, int64_t rows,
                      const float **a) {
  const kern_conv_axis *d = &j->conv.axis[0];
  const int64_t tiles = group_tiles(g), pitch = g->products * j->in;
  for (int64_t tap = r->tap; tap < r->last_tap; tap++)
    for (int64_t i = row; i < row + rows; i++) {
      int64_t z = (r->plane + i / tiles) * d->stride - d->begin + tap * d->dilation - g->in_first;
      *a++ = v + (z * tiles + i % tiles) * pitch;
    }
}

/* The weights of element e from the first tap of a run on, in a panel of the set's. */
static const float *weights_of(const job *j, const group *g, const run *r, int64_t e, int64_t panel) {
  const int64_t before = (e * j->products + g->product) * j->panels + panel;
  return j->u + before * panel_floats(j) + r->tap * j->conv.group_in * V_LANES;
}

/* The sums of a run for element e where groups share panels, of all products of the set. */
static void multiply_shared(const job *j, const group *g, const run *r, int64_t e) {
  const int64_t tiles = group_tiles(g), all = (r->end - r->plane) * tiles, pitch = g->products * V_LANES;
  const int64_t parts = (all + CONV_GROUPS_ROWS - 1) / CONV_GROUPS_ROWS;
  const float *a[CONV_GROUPS_ROWS * KERN_WINOGRAD_DEPTH];
  conv_groups t = {.a = a,
                   .taps = r->last_tap - r->tap,
                   .b = weights_of(j, g, r, e, 0),
                   .b_panel = panel_floats(j),
                   .group_in = j->conv.group_in,
                   .group_out = j->conv.group_out,
                   .panels = g->products,
                   .c_pitch = pitch};
  for (int64_t i = 0; i < parts; i++) {
    const int64_t row = gemm_split(all, parts, i);
    t.a_pitch = gemm_split(all, parts, i + 1) - row;
    t.c = j->sums + e * j->sums_plane + ((r->plane - g->plane) * tiles + row) * pitch;
    fill_rows(j, g, r, j->v + e * j->v_plane, row, t.a_pitch, a);
    KERN_NAME(conv_groups)(&t, t.a_pitch, NULL);
  }
}

/* The sums of a run for element e over panels [p, next), of one product, of `panels` of the set's from `panel` on.
 * `part`: of all rows of the group, the number of the first. Returns that of the next run. */
static int64_t multiply_run(const job *j, const group *g, const run *r, int64_t e, int64_t panel, int64_t panels,
                            int64_t p, int64_t next, int64_t part) {
  const int64_t pitch = panels * V_LANES, wide = next - p, tiles = group_tiles(g);
  const int64_t all = (r->end - r->plane) * tiles;
  const int64_t most = gemm_tile_rows(j->tuning, wide), parts = (all + most - 1) / most;
  const float *v = j->v + e * j->v_plane + (panel + p) / j->panels * j->in;
  const float *b = weights_of(j, g, r, e, panel + p);
  float *sums = j->sums + e * j->sums_plane + (r->plane - g->plane) * tiles * pitch + p * V_LANES;
  for (int64_t i = 0; i < parts; i++, part++) {
    int64_t row = gemm_split(all, parts, i), rows = gemm_split(all, parts, i + 1) - row;
    const float *a[GEMM_MAX_ROWS * KERN_WINOGRAD_DEPTH];
    fill_rows(j, g, r, v, row, rows, a);
    int64_t ahead = ahead_of(j, e, p, next, panels, part);
    gemm_tile t = {.a = a,
                   .a_pitch = rows,
                   .taps = r->last_tap - r->tap,
                   .k = j->conv.group_in,
                   .b = b,
                   .b_panel = panel_floats(j),
                   .c = sums + row * pitch,
                   .c_pitch = pitch,
                   .columns = wide * V_LANES,
                   .ahead = ahead ? b + ahead : NULL,
                   .ahead_step = V_LANES,
                   .rolled = j->tuning->tile_steps == 1,
                   .b_ahead = j->tuning->b_lines * V_LANES};
    KERN_NAME(gemm_tile)(&t, rows, wide, NULL);
  }
  return part;
}

/* sums of a group = v u, for every element, over `panels` panels of the set's from `panel`: of one product, or all. */
static void multiply(const job *j, const group *g, int64_t panel, int64_t panels) {
  if (j->shared > 1) {
    for (int64_t e = 0; e < j->elements; e++)
      for (run r = {.end = g->plane}; r.end < g->last;) {
        r = run_from(j, g, r.end);
        multiply_shared(j, g, &r, e);
      }
    return;
  }
  const int64_t each = base_min_i64(panels, j->panels), products = panels / each;
  const int64_t groups = gemm_groups(each, base_min_i64(j->tuning->winograd_panels, GEMM_MAX_PANELS));
  for (int64_t e = 0; e < j->elements; e++)
    for (int64_t i = 0; i < products * groups; i++) {
      const int64_t first = i / groups * each;
      for (int64_t plane = g->plane, part = 0; plane < g->last;) {
        const run r = run_from(j, g, plane);
        part = multiply_run(j, g, &r, e, panel, panels, first + gemm_split(each, groups, i % groups),
                            first + gemm_split(each, groups, i % groups + 1), part);
        plane = r.end;
      }
    }
}

/* Of all rows of a block of sums, one vector of each product: is it finite in the corners? */
static bool sums_finite(const job *j, const group *g, int64_t panel, int64_t panels) {
  const int64_t rows = (g->last - g->plane) * group_tiles(g), side = j->tile + 2;
  const int64_t corners[] = {0, side - 1, side * (side - 1), side * side - 1};
  vf zero = v_zero();
  for (int64_t p = 0; p < panels; p += j->panels - (panel + p) % j->panels)
    for (int64_t row = 0; row < rows; row++) V_FOR(c, 4) {
        const float *sums = j->sums + corners[c] * j->sums_plane + (row * panels + p) * V_LANES;
        zero = v_fma(v_zero(), v_load(sums), zero);
      }
  return v_sum(zero) == 0;
}

/* The inputs and sums of a block again, with zeros for inputs that are not finite. */
static void multiply_finite(job *j, const group *g, int64_t panel, int64_t panels) {
  j->finite = false;
  group_in(j, g);
  multiply(j, g, panel, panels);
}

/* Outputs of a tile of a plane of a batch that begin at `row` and `column`. */
static void add_nonfinite(const job *j, const tile_target *t, int64_t plane, int64_t row, int64_t column,
                          int64_t channel, int64_t channels) {
  const int64_t planes = j->conv.axis[0].out;
  kern_winograd_add_nonfinite(&(kern_winograd_outputs){.conv = &j->conv,
                                                       .tile = j->tile,
                                                       .x = j->x + plane / planes * j->conv.in_size * j->x_pitch,
                                                       .x_pitch = j->x_pitch,
                                                       .weights = j->u,
                                                       .plane = plane % planes,
                                                       .row = row,
                                                       .column = column,
                                                       .channel = channel,
                                                       .channels = channels,
                                                       .rows = t->rows,
                                                       .columns = t->columns,
                                                       .y = t->y,
                                                       .row_distance = t->row,
                                                       .column_distance = t->column});
}

/* Outputs of a tile of a plane, `channels` of them from `channel`, from their sums. */
static void tile_outputs(const job *j, const tile_target *whole, int64_t pixel, int64_t tile, int64_t channel,
                         int64_t channels, const float *sums) {
  const kern_conv_axis *h = &j->conv.axis[1], *w = &j->conv.axis[2];
  const bool cheap = j->cheap && j->finite;
  tile_target target = *whole;
  int64_t row, column;
  tile_place(j, tile, &row, &column);
  const int64_t plane = pixel / h->out / w->out;
  pixel += row * w->out + column;
  target.y = j->y + pixel * j->y_pitch + channel;
  if (cheap && j->epilogue.residual)
    target.residual = j->epilogue.residual + pixel * j->epilogue.residual_pitch + channel;
  target.rows = base_min_i64(j->tile, (h->out - row + h->dilation - 1) / h->dilation);
  target.columns = base_min_i64(j->tile, (w->out - column + w->dilation - 1) / w->dilation);
  if (row >= h->out || column >= w->out) return; /* a phase may be a tile shorter than another */
  j->form->out(sums, j->sums_plane, &target, channels);
  if (!j->finite) add_nonfinite(j, &target, plane, row, column, channel, channels);
  for (int64_t i = 0; i < target.rows && (!cheap || j->epilogue.chain); i++) {
    kern_epilogue all = kern_epilogue_at(&j->epilogue, pixel + i * h->dilation * w->out, channel);
    kern_epilogue_stride(&all, w->dilation);
    float *to = target.y + i * target.row;
    if (cheap) kern_epilogue_chain(&all, to, target.column, target.columns, channels);
    else KERN_NAME(epilogue_rows)(&all, to, target.column, target.columns, channels);
  }
}

/* All outputs of a group, `channels` of them from `channel`, from sums in rows of `pitch`. */
static void group_out(const job *j, const group *g, int64_t channel, int64_t channels, const float *sums,
                      int64_t pitch) {
  const kern_conv_axis *h = &j->conv.axis[1], *w = &j->conv.axis[2];
  const kern_epilogue *e = &j->epilogue;
  tile_target target = {.row = h->dilation * w->out * j->y_pitch,
                        .column = w->dilation * j->y_pitch,
                        .residual_row = h->dilation * w->out * e->residual_pitch,
                        .residual_column = w->dilation * e->residual_pitch,
                        .bias = j->cheap && j->finite && e->bias ? e->bias + channel : NULL,
                        .early = {-INFINITY, INFINITY},
                        .late = {-INFINITY, INFINITY}};
  if (j->cheap && j->finite) kern_epilogue_cheap(e, e->late && e->residual ? target.late : target.early);
  for (int64_t plane = g->plane; plane < g->last; plane++) {
    int64_t pixel = (g->sample * j->conv.axis[0].out + plane) * h->out * w->out;
    for (int64_t t = g->first; t < g->end; t++, sums += pitch)
      tile_outputs(j, &target, pixel, t, channel, channels, sums);
  }
}

/* Those of `panels` panels of the set's from `panel`. Products whose last panel is not full lie apart in the sums. */
static void block_out(const job *j, const group *g, int64_t panel, int64_t panels) {
  const int64_t pitch = panels * V_LANES, before = panel * V_LANES, channel = g->product * j->out + before;
  if (panels <= j->panels || j->out % V_LANES == 0) {
    group_out(j, g, channel, base_min_i64(pitch, g->products * j->out - before), j->sums, pitch);
    return;
  }
  for (int64_t i = 0; i < g->products; i++)
    group_out(j, g, channel + i * j->out, j->out, j->sums + i * j->panels * V_LANES, pitch);
}

static void run_task(job *j, int64_t task, int64_t *group_done) {
  int64_t chunk = task % j->chunks, number = task / j->chunks;
  const group g = group_of(j, number);
  if (*group_done != number) {
    j->finite = true;
    group_in(j, &g);
  }
  *group_done = number;
  int64_t last = base_min_i64((chunk + 1) * j->chunk_panels, g.products * j->panels);
  for (int64_t panel = chunk * j->chunk_panels; panel < last; panel += j->block_panels) {
    int64_t panels = base_min_i64(j->block_panels, last - panel);
    multiply(j, &g, panel, panels);
    if (j->finite && !sums_finite(j, &g, panel, panels)) multiply_finite(j, &g, panel, panels);
    block_out(j, &g, panel, panels);
  }
}

static int64_t tiles_along(const kern_conv_axis *a, int64_t tile) {
  return ((a->out + a->dilation - 1) / a->dilation + tile - 1) / tile;
}

/* Products whose panels fill a block are done together; where one fills several, its panels are cut. */
static void split_channels(job *j) {
  j->panels = (j->out + V_LANES - 1) / V_LANES;
  j->block_panels = base_max_i64(BLOCK / V_LANES, 1);
  j->together = base_min_i64(base_max_i64(j->block_panels / j->panels, 1), j->products);
  j->sets = (j->products + j->together - 1) / j->together;
  j->together = (j->products + j->sets - 1) / j->sets;
  if (j->together > 1) j->block_panels = j->together * j->panels;
}

/* Groups of tiles and chunks of channels, from the sizes of a sample and of the weights. Even groups suit even numbers
 * of workers. */
static void split(job *j, const kern_tuning *tuning, uint32_t workers) {
  split_channels(j);
  const kern_conv_axis *d = &j->conv.axis[0], *h = &j->conv.axis[1], *w = &j->conv.axis[2];
  j->tiles_across = tiles_along(w, j->tile);
  j->phase_tiles = tiles_along(h, j->tile) * j->tiles_across;
  j->tiles = j->phase_tiles * h->dilation * w->dilation;
  j->slabs = (d->out + GROUP_PLANES - 1) / GROUP_PLANES;
  j->slab_planes = (d->out + j->slabs - 1) / j->slabs;
  int64_t fit = tuning->winograd_group / j->elements / base_max_i64(j->together * j->in, 1);
  int64_t most = base_max_i64(base_min_i64(fit, GROUP_TILES), 4);
  const int64_t weights = j->elements * j->products * j->in * j->panels * V_LANES;
  if (weights > NEAR_WEIGHTS) most = base_max_i64(most, FAR_TILES);
  if (d->out > 1) most = base_max_i64(VOLUME_ROWS / j->slab_planes, 1);
  j->groups = (j->tiles + most - 1) / most;
  if (j->groups > 2) j->groups = base_min_i64((j->groups + 3) / 4 * 4, j->tiles);
  j->tuning = tuning;
  int64_t set_panels = j->together * j->panels, groups = j->slabs * j->sets * j->groups;
  int64_t blocks = (set_panels + j->block_panels - 1) / j->block_panels;
  /* With fewer groups of a sample than workers the output channels are cut, too. */
  int64_t chunks = base_min_i64(base_ceil_div(base_max_i64(workers, KERN_FEW_WORKERS), groups), blocks);
  j->chunk_panels = (blocks + chunks - 1) / chunks * j->block_panels;
  j->chunks = (set_panels + j->chunk_panels - 1) / j->chunk_panels;
  const kern_cuts even = {.maps = j->conv.batch * j->slabs * j->sets * j->chunks,
                          .size = j->tiles,
                          .tile = gemm_tile_rows(tuning, base_min_i64(tuning->winograd_panels, j->panels)),
                          .row = 1,
                          .least = j->groups,
                          .most = j->tiles,
                          .cuts = j->groups};
  j->groups = kern_even_cuts(&even, workers);
  j->group_tiles = (j->tiles + j->groups - 1) / j->groups;
}

/* An odd number of cache lines beside the rows: planes do not fall on the same lines of the first-level cache. */
static int64_t plane_of(int64_t row, int64_t rows) { return (row * rows + 15) / 16 * 16 / 32 * 32 + 48; }

static bool take_scratch(const base_call *call, job *j) {
  const kern_conv_axis *d = &j->conv.axis[0];
  int64_t seen = base_min_i64((j->slab_planes - 1) * d->stride + (d->kernel - 1) * d->dilation + 1, d->in);
  j->v_plane = plane_of(j->together * j->in, j->group_tiles * seen);
  j->sums_plane = plane_of(j->block_panels * V_LANES, j->group_tiles * j->slab_planes);
  j->v = base_call_scratch(call, (size_t)(j->elements * j->v_plane), sizeof *j->v);
  j->sums = base_call_scratch(call, (size_t)(j->elements * j->sums_plane), sizeof *j->sums);
  j->zeros = base_call_scratch(call, (size_t)(j->together * j->in), sizeof *j->zeros);
  if (!j->v || !j->sums || !j->zeros) return false;
  memset(j->zeros, 0, (size_t)(j->together * j->in) * sizeof *j->zeros);
  return true;
}

td_status KERN_NAME(winograd)(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *w = base_in(call, 1), *y = base_out(call, 0);
  if (base_tensor_numel(y) == 0) return TD_OK;
  job j = {.x = x->data,
           .u = w->data,
           .y = y->data,
           .x_pitch = kern_pitch(x),
           .y_pitch = kern_pitch(y),
           .tile = base_attr_int(call->attrs, KERN_WINOGRAD_TILE)};
  TRY(kern_conv_sizes(call, &j.conv));
  j.form = &forms[j.tile == 4];
  j.elements = (j.tile + 2) * (j.tile + 2);
  const int64_t depth = j.conv.axis[0].kernel * j.conv.group_in;
  j.shared = kern_conv_shared(false, j.conv.groups, j.conv.group_out, depth, V_LANES);
  j.products = j.conv.groups / j.shared;
  j.in = j.shared * j.conv.group_in;
  j.out = j.shared * j.conv.group_out;
  TRY(KERN_NAME(epilogue_of)(call, &j.epilogue));
  float limits[2];
  j.cheap = kern_epilogue_cheap(&j.epilogue, limits) && !j.epilogue.scale && !j.epilogue.shift;
  int64_t count;
  if (j.conv.panel != V_LANES || j.conv.axis[0].kernel > KERN_WINOGRAD_DEPTH ||
      !kern_winograd_packed_size(j.tile, j.conv.groups, j.conv.group_out, depth, V_LANES, &count) ||
      w->dims[0] != count)
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "the packed weights do not fit the convolution");
  split(&j, kern_tuning_of(call), call->workers);
  int64_t total = j.conv.batch * j.slabs * j.sets * j.groups * j.chunks, group_done = -1;
  if (total > UINT32_MAX / 2) return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "a convolution of too many tasks");
  if (!take_scratch(call, &j)) return base_no_memory(call->err, "scratch");
  for (int64_t t = base_call_first(call, total); t < total; t = base_call_next(call, t, total))
    run_task(&j, t, &group_done);
  return TD_OK;
}
