/* pairs_amx.c -- KERN_LINEAR and KERN_CONV on 16 bits by tiles of AMX: weights are pairs of bf16 (pack.h), the image is
 * rounded to that.
 *
 * The lines that a block of output lines sees are rounded into an image of their own, with zeros around, in which a
 * pixel has as many numbers as are stored of a tap. Each phase of the strides is an image by itself. So the taps of
 * output pixels side by side stand one pixel apart, whatever the stride, and a tile of A is read as it lies; tiles run
 * on from line to line, over what the windows have more than a line of output, whose sums nobody reads.
 *
 *     image[plane of the window][phase][phase][line][pixel of a phase][channel]
 *
 * A window of one pixel sees no line: then each output pixel is a line of one. A row of td::linear is that, too. */
#include "kernels/amx_priv.h"
#include "kernels/conv.h"
#include "kernels/gemm_priv.h"
#include "kernels/wide/narrow_priv.h"

enum {
  MOST_ROWS = 2 * AMX_ROWS,
  BLOCK_ROWS = 768,         /* of a block, about: their results stay in L2 beside what they are made of */
  BLOCK_BYTES = 256 * 1024, /* of a block's image: the same */
  SAME_SETS = 128,          /* numbers: pixels so many apart share few sets of L1 */
  TASKS = 16                /* that a product is cut into where its blocks are few */
};

typedef struct product {
  kern_conv c;
  kern_epilogue e;
  bool cheap; /* the epilogue is a bias, a residual and limits */
  float limits[2];
  kern_chain *front; /* makes the pixels of x; NULL: they are there */
  const float *x;
  int64_t x_pitch; /* floats from pixel to pixel */
  const uint16_t *w;
  float *out;
  int64_t out_pitch;
  int64_t blocks, words; /* of a tap; pairs of a block */
  int64_t panels, panel; /* bytes of one */
  int64_t phase[2];      /* of lines, of pixels of a line */
  int64_t pixel;         /* numbers from one of the image to the next */
  int64_t lines, line;   /* of a phase; pixels of one */
  int64_t block_lines;   /* of output */
  int64_t *run;          /* amx_tile.run: of each tap */
  uint16_t *image;
  float *made; /* lines of x by `front` */
} product;

/* Output lines [y, y + count) of a plane of a sample. */
typedef struct block {
  int64_t sample, plane, y, count;
} block;

/* ---- the image of a block ---- */

/* Pixels of one phase of a line of x, which begins at `from`; NULL: it lies beside x. */
static void round_line(const product *p, const float *from, int64_t phase, uint16_t *to) {
  const kern_conv_axis *a = &p->c.axis[2];
  const int64_t channels = p->c.group_in, stored = p->pixel, before = a->begin - phase;
  const int64_t first = from ? base_min_i64(base_max_i64(base_ceil_div(before, a->stride), 0), p->line) : p->line;
  const int64_t last = base_max_i64(base_min_i64(base_ceil_div(a->in + before, a->stride), p->line), first);
  memset(to, 0, (size_t)(first * stored) * sizeof *to);
  memset(to + last * stored, 0, (size_t)((p->line - last) * stored) * sizeof *to);
  if (last == first) return;
  const int64_t pitch = p->front ? channels : p->x_pitch;
  from += (first * a->stride - before) * pitch;
  to += first * stored;
  if (a->stride == 1 && pitch == channels && channels == stored) {
    write_bf16(to, from, (last - first) * channels);
    return;
  }
  for (int64_t i = first; i < last; i++, from += a->stride * pitch, to += stored) {
    write_bf16(to, from, channels);
    memset(to + channels, 0, (size_t)(stored - channels) * sizeof *to);
  }
}

/* One plane of x, in lines from `first` on. */
static const float *lines_of(const product *p, int64_t plane, int64_t first, int64_t last) {
  const kern_conv_axis *a = p->c.axis;
  const int64_t pixel = (plane * a[1].in + first) * a[2].in, channels = p->c.group_in;
  const kern_chain_tile t = {.sums = p->made,
                             .pitch = channels,
                             .row = pixel,
                             .row_step = 1,
                             .rows = (last - first) * a[2].in,
                             .columns = channels};
  if (!p->front) return p->x + pixel * p->x_pitch;
  if (last > first) kern_chain_run(p->front, &t);
  return p->made;
}

static void make_image(const product *p, const block *b) {
  const kern_conv_axis *a = p->c.axis, *y = &a[1];
  const int64_t begin = b->y * y->stride - y->begin, seen = (b->count - 1) * y->stride + (y->kernel - 1) * y->dilation;
  const int64_t first = base_min_i64(base_max_i64(begin, 0), y->in);
  const int64_t last = base_max_i64(base_min_i64(begin + seen + 1, y->in), first);
  const int64_t line = a[2].in * (p->front ? p->c.group_in : p->x_pitch), size = p->line * p->pixel;
  uint16_t *to = p->image;
  for (int64_t tap = 0; tap < a[0].kernel; tap++) {
    const int64_t z = b->plane * a[0].stride - a[0].begin + tap * a[0].dilation;
    const float *plane = z >= 0 && z < a[0].in ? lines_of(p, b->sample * a[0].in + z, first, last) : NULL;
    for (int64_t i = 0; i < p->phase[0] * p->phase[1]; i++)
      for (int64_t n = 0; n < p->lines; n++, to += size) {
        const int64_t at = begin + n * y->stride + i / p->phase[1];
        const bool there = plane && at >= first && at < last;
        round_line(p, there ? plane + (at - first) * line : NULL, i % p->phase[1], to);
      }
  }
}

/* Bytes from a pixel of the image to each tap of the window that begins there. */
static void find_runs(const product *p) {
  const kern_conv_axis *a = p->c.axis;
  for (int64_t tap = 0; tap < p->c.taps; tap++) {
    const int64_t y = tap / a[2].kernel % a[1].kernel * a[1].dilation, x = tap % a[2].kernel * a[2].dilation;
    int64_t at = tap / a[2].kernel / a[1].kernel * p->phase[0] + y % a[1].stride;
    at = at * p->phase[1] + x % a[2].stride;
    at = (at * p->lines + y / a[1].stride) * p->line + x / a[2].stride;
    p->run[tap] = at * p->pixel * (int64_t)sizeof *p->image;
  }
}

/* ---- sums ---- */

V_INLINE void finish_row(const product *p, const kern_epilogue *e, const float *sums, int64_t columns, float *to) {
  const vf low = v_set(p->limits[0]), high = v_set(p->limits[1]);
  for (int64_t i = 0; i < columns; i += V_LANES) {
    const int64_t lanes = base_min_i64(V_LANES, columns - i);
    vf t = v_load(sums + i);
    if (e->bias) t = v_add(t, v_load_n(e->bias + i, lanes));
    if (!e->late) t = v_min(high, v_max(low, t));
    if (e->residual) t = v_add(t, v_load_n(e->residual + i, lanes));
    if (e->late) t = v_min(high, v_max(low, t));
    v_store_n(to + i, t, lanes);
  }
}

/* Sums of pixels from number `pixel` of the output on, from its column on. */
static void finish(const product *p, float *sums, int64_t pixel, int64_t rows, int64_t column, int64_t columns) {
  kern_epilogue e = kern_epilogue_at(&p->e, pixel, column);
  float *to = p->out + pixel * p->out_pitch + column;
  if (!p->cheap) KERN_NAME(epilogue_rows)(&e, sums, AMX_WIDTH, rows, columns);
  for (int64_t r = 0; r < rows; r++, to += p->out_pitch, sums += AMX_WIDTH) {
    if (!p->cheap) memcpy(to, sums, (size_t)columns * sizeof *to);
    else finish_row(p, &e, sums, columns, to);
    if (e.residual) e.residual += e.residual_pitch;
  }
}

/* Rows [row, end) of a block's image, where `sums` are those of `row`; what is no pixel of the output is left out. */
static void finish_rows(const product *p, const block *b, float *sums, int64_t row, int64_t end, int64_t column,
                        int64_t columns) {
  const kern_conv_axis *a = p->c.axis;
  const int64_t first = ((b->sample * a[0].out + b->plane) * a[1].out + b->y) * a[2].out;
  for (int64_t n; row < end; row += n, sums += n * AMX_WIDTH) {
    const int64_t line = row / p->line, x = row % p->line;
    n = base_min_i64((x < a[2].out ? a[2].out : p->line) - x, end - row);
    if (p->line == a[2].out) n = end - row;
    if (x < a[2].out) finish(p, sums, first + line * a[2].out + x, n, column, columns);
  }
}

/* Rows of each tile that `count` rows make, at least one. */
static int64_t even_rows(int64_t count) { return base_ceil_div(count, base_ceil_div(count, MOST_ROWS)); }

/* Rows [first, first + count) of the image times some panels: tiles have as many rows each, so that the last one may
 * begin with `done` rows of the one before. */
static void multiply_rows(const product *p, const block *b, int64_t first, int64_t count, int64_t panel,
                          int64_t panels) {
  const int64_t tall = even_rows(count), pixel = p->pixel * (int64_t)sizeof *p->image;
  const int64_t column = panel * V_LANES, columns = base_min_i64(panels * V_LANES, p->c.group_out - column);
  const int64_t block_bytes = p->words * (int64_t)sizeof(uint32_t);
  for (int64_t row = 0, done; row < count; row += tall - done) {
    _Alignas(64) float sums[MOST_ROWS * AMX_WIDTH];
    const int64_t from = base_min_i64(row, count - tall);
    const char *at = (const char *)p->image + (first + from) * pixel;
    const amx_tile t = {.a = {at, at + AMX_ROWS * pixel},
                        .a_pitch = pixel,
                        .a_block = block_bytes,
                        .run = p->run,
                        .runs = p->c.taps,
                        .blocks = p->blocks,
                        .b = (const char *)p->w + panel * p->panel,
                        .b_block = block_bytes * V_LANES,
                        .b_panel = p->panel,
                        .sums = sums};
    done = row - from;
    if (p->blocks > 0) KERN_PART_NAME(amx_bf16)(&t, tall, panels);
    else memset(sums, 0, sizeof sums);
    finish_rows(p, b, sums + done * AMX_WIDTH, first + row, first + from + tall, column, columns);
  }
}

/* Panels [panel, end) of a block whose image is made. Tiles run on from line to line where that makes fewer. */
static void multiply_block(const product *p, const block *b, int64_t panel, int64_t end) {
  const int64_t width = p->c.axis[2].out, whole = (b->count - 1) * p->line + width;
  const bool run_on = base_ceil_div(whole, MOST_ROWS) <= b->count * base_ceil_div(width, MOST_ROWS);
  const int64_t spans = run_on ? 1 : b->count, count = run_on ? whole : width;
  if (p->blocks > 0) amx_begin(even_rows(count), p->words);
  for (int64_t panels; panel < end; panel += panels) {
    for (panels = AMX_PANELS; panels > end - panel;) panels /= 2;
    for (int64_t i = 0; i < spans; i++) multiply_rows(p, b, i * p->line, count, panel, panels);
  }
}

/* ---- how a product is cut ---- */

/* A window of one pixel, which begins where the image does, takes pixels one by one. */
static void merge_lines(kern_conv *c) {
  kern_conv_axis *a = c->axis;
  bool own = c->taps == 1;
  for (int i = 0; i < KERN_CONV_AXES; i++) own &= a[i].stride == 1 && a[i].begin == 0 && a[i].in == a[i].out;
  if (!own) return;
  a[1].in = a[1].out = c->batch * c->out_size;
  a[0].in = a[0].out = a[2].in = a[2].out = c->batch = 1;
}

static void set_sizes(product *p) {
  kern_conv *c = &p->c;
  merge_lines(c);
  const kern_conv_axis *a = c->axis;
  const int64_t pairs = c->stored / 2, reach[] = {(a[1].kernel - 1) * a[1].dilation, (a[2].kernel - 1) * a[2].dilation};
  p->blocks = c->taps > 0 ? base_ceil_div(pairs, AMX_ROWS) : 0;
  p->words = p->blocks ? pairs / p->blocks : 0;
  p->panels = base_ceil_div(c->group_out, V_LANES);
  p->pixel = c->stored % SAME_SETS ? c->stored : c->stored + AMX_BYTES / (int64_t)sizeof *p->image;
  p->panel = c->taps * c->stored * V_LANES * (int64_t)sizeof *p->w;
  for (int i = 0; i < 2; i++) p->phase[i] = base_max_i64(base_min_i64(a[1 + i].stride, reach[i] + 1), 1);
  p->line = a[2].out + base_max_i64(reach[1], 0) / a[2].stride;
  const int64_t bytes = p->line * base_max_i64(p->pixel, 1) * (int64_t)sizeof *p->image * p->phase[1];
  const int64_t most = base_min_i64(BLOCK_ROWS / p->line, BLOCK_BYTES / bytes);
  const int64_t blocks = base_ceil_div(a[1].out, base_max_i64(most, 1));
  p->block_lines = base_ceil_div(a[1].out, blocks);
  p->lines = p->block_lines + base_max_i64(reach[0], 0) / a[1].stride;
}

static td_status take_room(const base_call *call, product *p) {
  const kern_conv_axis *a = p->c.axis;
  const int64_t sizes[] = {a[0].kernel, p->phase[0] * p->phase[1], p->lines, p->line, p->pixel};
  const int64_t seen = (p->block_lines - 1) * a[1].stride + (a[1].kernel - 1) * a[1].dilation + 1;
  const int64_t made[] = {base_min_i64(seen, a[1].in), a[2].in, p->c.group_in};
  int64_t count, front;
  if (!base_numel(5, sizes, &count) || !base_numel(3, made, &front))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "the window is too large");
  p->run = base_call_scratch(call, (size_t)p->c.taps, sizeof *p->run);
  p->image = base_call_scratch(call, (size_t)count, sizeof *p->image);
  p->made = p->front ? base_call_scratch(call, (size_t)front, sizeof *p->made) : NULL;
  if (!p->run || !p->image || (p->front && !p->made)) return base_no_memory(call->err, "scratch");
  find_runs(p);
  return TD_OK;
}

static td_status multiply(const base_call *call, product *p) {
  const base_tensor *out = base_out(call, 0);
  if (base_tensor_numel(out) == 0) return TD_OK;
  p->w = base_in(call, 1)->data;
  p->x = base_in(call, 0)->data;
  p->out = out->data;
  p->out_pitch = kern_pitch(out);
  TRY(KERN_NAME(product_of)(call, &p->e, &p->front));
  p->cheap = kern_epilogue_cheap(&p->e, p->limits) && !p->e.scale && !p->e.shift && !p->e.chain;
  set_sizes(p);
  TRY(take_room(call, p));
  const kern_conv_axis *a = p->c.axis;
  const int64_t in_plane = base_ceil_div(a[1].out, p->block_lines), blocks = p->c.batch * a[0].out * in_plane;
  const int64_t wides = base_ceil_div(p->panels, AMX_PANELS), parts = base_min_i64(base_ceil_div(TASKS, blocks), wides);
  const int64_t tasks = blocks * parts;
  int64_t made = -1;
  for (int64_t task = base_call_first(call, tasks); task < tasks; task = base_call_next(call, task, tasks)) {
    const int64_t n = task / parts, part = task % parts, y = n % in_plane * p->block_lines;
    const block b = {.sample = n / in_plane / a[0].out,
                     .plane = n / in_plane % a[0].out,
                     .y = y,
                     .count = base_min_i64(p->block_lines, a[1].out - y)};
    if (n != made) make_image(p, &b);
    made = n;
    multiply_block(p, &b, gemm_split(wides, parts, part) * AMX_PANELS,
                   base_min_i64(p->panels, gemm_split(wides, parts, part + 1) * AMX_PANELS));
  }
  amx_end();
  return TD_OK;
}

td_status KERN_PART_NAME(linear_bf16_amx)(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  const kern_conv_axis one = {1, 1, 1, 1, 0, 1};
  product p = {.c = {.axis = {one, one, one},
                     .batch = 1,
                     .groups = 1,
                     .group_in = x->dims[x->rank - 1],
                     .group_out = out->dims[out->rank - 1],
                     .taps = 1,
                     .out_size = 1},
               .x_pitch = kern_pitch(x)};
  p.c.stored = kern_tiles_depth(p.c.group_in);
  for (int32_t i = 0; i < x->rank - 1; i++) p.c.out_size *= x->dims[i];
  return multiply(call, &p);
}

td_status KERN_PART_NAME(conv_bf16_amx)(const base_call *call) {
  product p = {.x_pitch = kern_pitch(base_in(call, 0))};
  TRY(kern_conv_of(call, false, &p.c));
  return multiply(call, &p);
}
