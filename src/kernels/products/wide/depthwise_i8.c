/* depthwise_i8.c -- td::conv_i8 where each channel meets a window of its own. Vectors lie along channels. For a strip
 * of a row of the result, the rows of the image that its windows see are put side by side, BYTES_DEPTH of them to each
 * channel of a column (b_zip): a dot instruction then adds taps that stand above one another, and each column serves
 * all windows that see it. Whole blocks of channels that become bytes at once are in the order of b_zip_whole, and so
 * are their weights; a last block that would not be whole overlaps the one before, whose bytes it leaves alone. Where a
 * block has room for the channels of several pixels, these are taken together: a pixel of so many is the vector that
 * begins at the first. Sums are exact, so that none of this changes a bit. */
#include "kernels/products/product_i8_priv.h"

enum {
  STRIP = 64,                                          /* pixels of a strip */
  PIXELS = 4,                                          /* of a tile */
  PANEL_ELEMENTS = V_LANES * BYTES_DEPTH,              /* of one dot instruction */
  CELL_ELEMENTS = BYTES_PANELS * V_LANES * BYTES_DEPTH /* of BYTES_DEPTH rows of a column */
};

typedef struct job {
  const i8_finish *f;
  const int8_t *w;
  const kern_conv *c;
  int64_t channels; /* of the image: from pixel to pixel */
  int64_t together; /* pixels of the image that are one of c's */
  uint8_t flip;
  int64_t rows, cells;   /* rows of taps; of BYTES_DEPTH of them, padded */
  const uint8_t *beside; /* BYTES_ROW elements of what lies beside the image */
  uint8_t *beside_line;  /* a row of it; NULL: strips have none */
  byte_x *zipped;        /* [column of the strip][cell][CELL_ELEMENTS] */
} job;

/* What whole blocks have in place of f and w. */
typedef struct whole_blocks {
  i8_product p;
  i8_finish f;
  int32_t *start; /* f.start */
  float *scales;  /* f.scales */
  float *offsets; /* f.offsets */
  int8_t *w;
} whole_blocks;

/* A strip of a row of the result, `count` pixels from `first` on, over `n` channels from `channel` on. */
typedef struct strip {
  const uint8_t *image;
  int64_t row, first, count, channel, n;
} strip;

/* Row `r` of taps of a strip, at pixel 0 of the image's row; NULL: it lies beside the image. */
static const uint8_t *row_of(const job *j, const strip *s, int64_t r) {
  const kern_conv_axis *a = j->c->axis;
  if (r >= j->rows) return NULL;
  const int64_t plane = base_quotient(s->row, a[1].out), tap = base_quotient(r, a[1].kernel);
  const int64_t i0 = plane * a[0].stride - a[0].begin + tap * a[0].dilation;
  const int64_t i1 = (s->row - plane * a[1].out) * a[1].stride - a[1].begin + (r - tap * a[1].kernel) * a[1].dilation;
  if (i0 < 0 || i0 >= a[0].in || i1 < 0 || i1 >= a[1].in) return NULL;
  return s->image + (i0 * a[1].in + i1) * a[2].in * j->channels + s->channel;
}

/* Of pixels that are taken together some lie beside the image: a copy of those from `i` on. */
static const uint8_t *copy_edge(const job *j, const uint8_t *row, int64_t i, uint8_t *to) {
  const int64_t in = j->c->axis[KERN_CONV_AXES - 1].in, first = base_max_i64(i, 0);
  const int64_t last = base_min_i64(i + j->together, in), at = (first - i) * j->channels;
  memcpy(to, j->beside, BYTES_ROW);
  if (last > first) memcpy(to + at, row + first * j->channels, (size_t)((last - first) * j->channels));
  return to;
}

/* Column `i` of the image's row in BYTES_DEPTH rows of taps; `edges` has room for as many of BYTES_ROW. */
V_INLINE void find_column(const job *j, const uint8_t *const *row, int64_t i, uint8_t *edges, const uint8_t **from) {
  const bool inside = i >= 0 && i + j->together <= j->c->axis[KERN_CONV_AXES - 1].in;
  V_FOR(r, BYTES_DEPTH) from[r] = inside && row[r] ? row[r] + i * j->channels : j->beside;
  for (int r = 0; !inside && j->together > 1 && r < BYTES_DEPTH; r++)
    if (row[r]) from[r] = copy_edge(j, row[r], i, edges + r * BYTES_ROW);
}

static void zip(const job *j, const strip *s) {
  const kern_conv_axis *a = &j->c->axis[KERN_CONV_AXES - 1];
  const int64_t columns = (s->count - 1) * a->stride + (a->kernel - 1) * a->dilation + 1;
  for (int64_t cell = 0; cell < j->cells; cell++) {
    const uint8_t *row[BYTES_DEPTH];
    for (int r = 0; r < BYTES_DEPTH; r++) row[r] = row_of(j, s, cell * BYTES_DEPTH + r);
    byte_x *to = j->zipped + cell * CELL_ELEMENTS;
    for (int64_t column = 0; column < columns; column++, to += j->cells * CELL_ELEMENTS) {
      const int64_t i = s->first * a->stride - a->begin + column;
      uint8_t edges[BYTES_DEPTH * BYTES_ROW];
      const uint8_t *from[BYTES_DEPTH];
      find_column(j, row, i, edges, from);
      if (j->f->whole) {
        vi z[BYTES_PANELS];
        b_zip_whole(z, from, j->flip);
        V_FOR(p, BYTES_PANELS) memcpy(to + p * PANEL_ELEMENTS, &z[p], sizeof z[p]);
        continue;
      }
      for (int64_t at = 0; at < s->n; at += V_LANES)
        b_zip(to + at * BYTES_DEPTH, from, at, base_min_i64(V_LANES, s->n - at), j->flip);
    }
  }
}

/* Sums of pixels from `pixel` of the strip on, over panels from `panel` of the block on. */
V_TEMPLATE void tile(const job *j, const strip *s, int64_t pixel, int64_t panel, int32_t *sums, const int pixels,
                     const int panels) {
  const kern_conv_axis *a = &j->c->axis[KERN_CONV_AXES - 1];
  const kern_i8_layout *l = &j->f->p->l;
  const int64_t lane = s->channel + panel * V_LANES, cell = j->cells * CELL_ELEMENTS;
  const int8_t *w = j->w + lane / V_LANES * l->panel_bytes;
  const byte_x *x = j->zipped + pixel * a->stride * cell + panel * PANEL_ELEMENTS;
  vi sum[PIXELS * BYTES_PANELS];
  V_FOR(r, pixels) V_FOR(p, panels) sum[r * panels + p] = b_load_i32(j->f->start + lane + p * V_LANES);
  for (int64_t k = 0; k < a->kernel; k++, x += a->dilation * cell)
    for (int64_t c = 0; c < j->cells; c++, w += PANEL_ELEMENTS) V_FOR(p, panels) {
        const vi b = b_load(w + p * l->panel_bytes);
        V_FOR(r, pixels) {
          const byte_x *at = x + r * a->stride * cell + c * CELL_ELEMENTS + p * PANEL_ELEMENTS;
          sum[r * panels + p] = b_dot(sum[r * panels + p], b_load_x(at), b);
        }
      }
  V_FOR(r, pixels) V_FOR(p, panels) b_store_i32(sums + r * BYTES_ROW + p * V_LANES, sum[r * panels + p]);
}

static void run_tile(const job *j, const strip *s, int64_t pixel, int64_t pixels, int32_t *sums) {
  const int64_t panels = (s->n + V_LANES - 1) / V_LANES;
  if (panels == BYTES_PANELS && pixels == PIXELS) tile(j, s, pixel, 0, sums, PIXELS, BYTES_PANELS);
  else if (panels == BYTES_PANELS) tile(j, s, pixel, 0, sums, 1, BYTES_PANELS);
  else
    for (int64_t panel = 0; panel < panels; panel++) {
      if (pixels == PIXELS) tile(j, s, pixel, panel, sums + panel * V_LANES, PIXELS, 1);
      else tile(j, s, pixel, panel, sums + panel * V_LANES, 1, 1);
    }
}

/* Adds to sums what s.w_shift takes from the weights: it times the elements that a window sees. What is padded, or lies
 * beside the image, is x_zero, and counts as 0. */
static void add_shifts(const job *j, const strip *s, int64_t pixel, int64_t pixels, int32_t *sums) {
  const kern_conv_axis *a = &j->c->axis[KERN_CONV_AXES - 1];
  const kern_i8_scales *scales = &j->f->p->s;
  const int64_t cell = j->cells * CELL_ELEMENTS, seen = a->kernel * j->cells * BYTES_DEPTH;
  const vi ones = b_ones();
  for (int64_t r = 0; r < pixels; r++)
    for (int64_t at = 0; at < s->n; at += V_LANES) {
      const byte_x *x = j->zipped + (pixel + r) * a->stride * cell + at * BYTES_DEPTH;
      vi sum = vi_set(-(int32_t)seen * (int32_t)scales->x_zero);
      for (int64_t k = 0; k < a->kernel; k++, x += a->dilation * cell)
        for (int64_t c = 0; c < j->cells; c++) sum = b_dot(sum, b_load_x(x + c * CELL_ELEMENTS), ones);
      int32_t *to = sums + r * BYTES_ROW + at;
      b_store_i32(to, vi_add(b_load_i32(to), b_multiply(sum, vi_set(-scales->w_shift))));
    }
}

static void run_strip(const job *j, const strip *s, int64_t out) {
  zip(j, s);
  for (int64_t pixel = 0, done; pixel < s->count; pixel += done) {
    _Alignas(64) float sums[PIXELS * BYTES_ROW];
    done = s->count - pixel >= PIXELS ? PIXELS : 1;
    run_tile(j, s, pixel, done, (int32_t *)(void *)sums);
    if (j->f->p->s.w_shift) add_shifts(j, s, pixel, done, (int32_t *)(void *)sums);
    KERN_PART_NAME(i8_finish)(j->f, sums, out + pixel, done, 0, s->channel, s->n);
  }
}

/* ---- whole blocks, a column at a time ---- */

/* Column `i` of the image's row, side by side in registers. A row beside the image is one of what lies there. `last`:
 * the last column that lies in the image. */
V_INLINE void zip_column(const job *j, const uint8_t *const *row, int64_t i, int64_t last, int64_t channels,
                         uint8_t flip, vi *z) {
  const uint8_t *from[BYTES_DEPTH];
  if (__builtin_expect(i >= 0 && i <= last, 1)) {
    V_FOR(r, BYTES_DEPTH) from[r] = row[r] + i * channels;
    b_zip_whole(z, from, flip);
    return;
  }
  uint8_t edges[BYTES_DEPTH * BYTES_ROW];
  for (int r = 0; r < BYTES_DEPTH; r++)
    from[r] = j->together > 1 ? copy_edge(j, row[r], i, edges + r * BYTES_ROW) : j->beside;
  b_zip_whole(z, from, flip);
}

/* Sums of a row of the result: each column is added to the sums of all windows that see it, `live` of them. Those of
 * the first window are whole then. A window has `kernel` rows, too. Weights are copied: one pointer finds them all. */
V_TEMPLATE void slide(const job *j, const strip *s, int64_t out, const int kernel, const int stride) {
  enum { MOST_LIVE = 3, MOST_ROWS = 4, MOST_WEIGHTS = 3 * PANEL_ELEMENTS };
  const int live = (kernel + stride - 1) / stride;
  const int cells = (kernel + BYTES_DEPTH - 1) / BYTES_DEPTH;
  const kern_conv_axis *a = &j->c->axis[KERN_CONV_AXES - 1];
  const int64_t begin = a->begin, last = a->in - j->together, channels = j->channels, count = s->count,
                panel_bytes = j->f->p->l.panel_bytes;
  const uint8_t flip = j->flip, *row[MOST_ROWS];
  vi start[BYTES_PANELS], sum[MOST_LIVE * BYTES_PANELS];
  _Alignas(64) float sums[BYTES_ROWS * BYTES_ROW];
  _Alignas(64) int8_t w[BYTES_PANELS * MOST_WEIGHTS];
  V_FOR(p, BYTES_PANELS)
  memcpy(w + p * MOST_WEIGHTS, j->w + (s->channel / V_LANES + p) * panel_bytes,
         (size_t)(kernel * cells) * PANEL_ELEMENTS);
  V_FOR(r, cells * BYTES_DEPTH) {
    row[r] = row_of(j, s, r);
    if (!row[r]) row[r] = j->beside_line;
  }
  V_FOR(p, BYTES_PANELS) start[p] = b_load_i32(j->f->start + s->channel + p * V_LANES);
  V_FOR(i, live * BYTES_PANELS) sum[i] = start[i % BYTES_PANELS];
  for (int64_t pixel = 1 - live, kept = 0; pixel < count; pixel++) {
    V_FOR(t, stride) {
      const int64_t column = pixel * stride + kernel - stride + t;
      if (column >= 0) V_FOR(cell, cells) {
          vi z[BYTES_PANELS];
          zip_column(j, row + cell * BYTES_DEPTH, column - begin, last, channels, flip, z);
          V_FOR(i, live) {
            const int tap = kernel - stride + t - stride * i;
            const int8_t *at = w + ((tap < 0 ? 0 : tap) * cells + cell) * PANEL_ELEMENTS;
            if (tap >= 0) V_FOR(p, BYTES_PANELS)
            sum[i * BYTES_PANELS + p] = b_dot_at(sum[i * BYTES_PANELS + p], z[p], at + p * MOST_WEIGHTS);
          }
        }
    }
    if (pixel >= 0) {
      int32_t *to = (int32_t *)(void *)sums + kept++ * BYTES_ROW;
      V_FOR(p, BYTES_PANELS) b_store_i32(to + p * V_LANES, sum[p]);
    }
    V_FOR(i, (live - 1) * BYTES_PANELS) sum[i] = sum[i + BYTES_PANELS];
    V_FOR(p, BYTES_PANELS) sum[(live - 1) * BYTES_PANELS + p] = start[p];
    if (kept < BYTES_ROWS && pixel + 1 < count) continue;
    KERN_PART_NAME(i8_finish)(j->f, sums, out + pixel + 1 - kept, kept, 0, s->channel, BYTES_ROW);
    kept = 0;
  }
}

typedef void slide_function(const job *j, const strip *s, int64_t out);
#define SLIDE(kernel, stride) \
  static void slide_##kernel##_##stride(const job *j, const strip *s, int64_t out) { slide(j, s, out, kernel, stride); }
SLIDE(3, 1)
SLIDE(3, 2)

/* NULL: windows of that kind go by strips, and so do all where two rows are side by side, not four. */
static slide_function *slide_of(const kern_conv_axis *a) {
  static const struct {
    int64_t kernel, stride;
    slide_function *slide;
  } known[] = {{3, 1, slide_3_1}, {3, 2, slide_3_2}}; /* those of 5 gain nothing over strips */
  if (!BYTES_BY_FOURS || a[0].kernel != 1 || a[1].kernel != a[2].kernel || a[2].dilation != 1) return NULL;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].kernel == a[2].kernel && known[i].stride == a[2].stride) return known[i].slide;
  return NULL;
}

/* `n` lanes of panels `w` and of what belongs to them, which become those from `at` on. */
V_TEMPLATE void order_lanes(const i8_finish *f, whole_blocks *to, const int8_t *w, int64_t from, int64_t at,
                            const int n) {
  const int64_t bytes = f->p->l.panel_bytes;
  int8_t *panel = to->w + at / V_LANES * bytes + at % V_LANES * BYTES_DEPTH;
  w += from / V_LANES * bytes + from % V_LANES * BYTES_DEPTH;
  memcpy(to->start + at, f->start + from, (size_t)n * sizeof *to->start);
  memcpy(to->scales + at, f->scales + from, (size_t)n * sizeof *to->scales);
  memcpy(to->offsets + at, f->offsets + from, (size_t)n * sizeof *to->offsets);
  for (int64_t k = 0; k + PANEL_ELEMENTS <= bytes; k += PANEL_ELEMENTS)
    memcpy(panel + k, w + k, (size_t)n * BYTES_DEPTH);
}

/* Those of `f` and of the packed weights, in the order of whole blocks; of pixels that are taken `together`. `last`: of
 * the last block, whose channels are the last ones: some are those of the block before. */
static td_status order_blocks(const i8_finish *f, int64_t together, whole_blocks *to, whole_blocks *last) {
  const i8_product *p = f->p;
  const kern_i8_layout *l = &p->l;
  const int8_t *w = (const int8_t *)p->w + l->data;
  const int64_t channels = l->n * together, blocks = base_ceil_div(channels, BYTES_ROW), end = channels - BYTES_ROW;
  to->start = base_call_scratch(p->call, (size_t)(blocks * BYTES_ROW), sizeof *to->start);
  to->scales = base_call_scratch(p->call, (size_t)(blocks * BYTES_ROW), sizeof *to->scales);
  to->offsets = base_call_scratch(p->call, (size_t)(blocks * BYTES_ROW), sizeof *to->offsets);
  to->w = base_call_scratch(p->call, (size_t)(blocks * BYTES_PANELS), (size_t)l->panel_bytes);
  to->p = *p;
  to->p.out_pitch *= together;
  to->f = *f;
  to->f.p = &to->p;
  to->f.start = to->start;
  to->f.scales = to->scales;
  to->f.offsets = to->offsets;
  to->f.whole = true;
  if (!to->start || !to->scales || !to->offsets || !to->w) return base_no_memory(p->call->err, "scratch");
  for (int64_t block = 0; block < blocks; block++)
    for (int64_t vector = 0; vector < BYTES_PANELS; vector++)
      for (int64_t run = 0; run < V_LANES; run += B_WHOLE_RUN) {
        const int64_t at = block * BYTES_ROW + vector * V_LANES + run;
        const int64_t from = base_min_i64(block * BYTES_ROW, end) + b_whole_from(vector, run / B_WHOLE_RUN);
        if (end % B_WHOLE_RUN == 0) order_lanes(f, to, w, from % l->n, at, B_WHOLE_RUN);
        for (int64_t i = 0; end % B_WHOLE_RUN && i < B_WHOLE_RUN; i++)
          order_lanes(f, to, w, (from + i) % l->n, at + i, 1);
      }
  *last = *to; /* found by its first channel, too */
  last->f.known = (blocks - 1) * BYTES_ROW - end;
  last->f.start += last->f.known;
  last->f.scales += last->f.known;
  last->f.offsets += last->f.known;
  last->w += ((blocks - 1) * BYTES_PANELS - end / V_LANES) * l->panel_bytes;
  return TD_OK;
}

/* Pixels along the last axis whose channels fill a block, where all outputs are made of such. */
static int64_t pixels_together(const i8_product *p, const kern_conv *c) {
  const kern_conv_axis *a = &c->axis[KERN_CONV_AXES - 1];
  const int64_t pixels = BYTES_ROW % c->groups == 0 ? BYTES_ROW / c->groups : 1;
  const bool may = a->stride == 1 && a->out % pixels == 0 && p->out_pitch == c->groups && c->groups % B_WHOLE_RUN == 0;
  return may ? pixels : 1;
}

td_status KERN_PART_NAME(i8_depthwise)(const i8_product *p, const kern_conv *of, uint8_t flip) {
  i8_finish f;
  TRY(KERN_PART_NAME(i8_finish_of)(p, &f));
  const bool whole_rows = f.direct && !f.d.residual && !p->s.w_shift;
  const int64_t together = whole_rows ? pixels_together(p, of) : 1, rows = of->axis[0].kernel * of->axis[1].kernel;
  kern_conv c = *of;
  const kern_conv_axis *a = c.axis;
  c.axis[2].stride *= together;
  c.axis[2].out /= together;
  c.groups *= together;
  const int64_t cells = base_ceil_div(rows, BYTES_DEPTH);
  const bool orders = whole_rows && c.groups >= BYTES_ROW;
  slide_function *slides = orders ? slide_of(a) : NULL;
  const int64_t wide = slides ? a[2].out : STRIP / together;
  const int64_t columns = (base_min_i64(wide, a[2].out) - 1) * a[2].stride + (a[2].kernel - 1) * a[2].dilation + 1;
  const int64_t strips = base_ceil_div(a[2].out, wide), blocks = base_ceil_div(c.groups, BYTES_ROW);
  const int64_t out_rows = a[0].out * a[1].out, tasks = c.batch * out_rows * strips * blocks;
  uint8_t beside[BYTES_ROW];
  memset(beside, (int)p->s.x_zero ^ flip, sizeof beside);
  whole_blocks whole, last;
  if (orders) TRY(order_blocks(&f, together, &whole, &last));
  job j = {.c = &c,
           .channels = of->groups,
           .together = together,
           .flip = flip,
           .rows = rows,
           .cells = cells,
           .beside = beside};
  const size_t line = (size_t)base_max_i64(a[2].in * of->groups, BYTES_ROW);
  if (slides) j.beside_line = base_call_scratch(p->call, line, 1);
  else j.zipped = base_call_scratch(p->call, (size_t)columns, (size_t)(cells * CELL_ELEMENTS) * sizeof *j.zipped);
  if (!j.beside_line && !j.zipped) return base_no_memory(p->call->err, "scratch");
  if (slides) memset(j.beside_line, beside[0], line);
  for (int64_t t = base_call_first(p->call, tasks); t < tasks; t = base_call_next(p->call, t, tasks)) {
    const int64_t of_blocks = base_quotient(t, blocks), block = t - of_blocks * blocks;
    const int64_t row = base_quotient(of_blocks, strips), at = of_blocks - row * strips;
    const int64_t sample = base_quotient(row, out_rows);
    strip s = {.image = (const uint8_t *)p->x + sample * c.in_size * of->groups,
               .row = row - sample * out_rows,
               .first = at * wide,
               .channel = orders ? base_min_i64(block * BYTES_ROW, c.groups - BYTES_ROW) : block * BYTES_ROW};
    const whole_blocks *of_block = block + 1 < blocks ? &whole : &last;
    s.count = base_min_i64(wide, a[2].out - s.first);
    s.n = base_min_i64(BYTES_ROW, c.groups - s.channel);
    j.f = orders ? &of_block->f : &f;
    j.w = orders ? of_block->w : (const int8_t *)p->w + p->l.data;
    (slides ? slides : run_strip)(&j, &s, row * a[2].out + s.first);
  }
  return TD_OK;
}
