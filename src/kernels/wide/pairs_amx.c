/* pairs_amx.c -- KERN_LINEAR and KERN_CONV on 16 bits by tiles of AMX: weights are pairs of bf16 (pack.h), the image is
 * rounded to that, where it is not bf16. So may the residual and the result be.
 *
 * The lines that a block of output lines sees are rounded into an image of their own, with zeros around, in which a
 * pixel has as many numbers as are stored of a tap. Each phase of the strides is an image by itself. So the taps of
 * output pixels side by side stand one pixel apart, whatever the stride, and a tile of A is read as it lies; tiles run
 * on from line to line, over what the windows have more than a line of output, whose sums nobody reads.
 *
 *     image[plane of the window][phase][phase][line][pixel of a phase][channel]
 *
 * Of an image with channels first, whose channels are few, the numbers that a window sees of a line are one tap: output
 * pixels stand a stride of pixels apart in the one image of a phase of lines (kern_row_channels, pack_conv.h).
 *
 * A window of one pixel sees no line: then each output pixel is a line of one. A row of td::linear is that, too. Where
 * such pixels are bf16 and fill whole blocks of a tile, x is the image. */
#include "kernels/amx_priv.h"
#include "kernels/conv.h"
#include "kernels/pairs_priv.h"

enum {
  MOST_ROWS = 2 * AMX_ROWS,
  BLOCK_ROWS = 768,         /* of a block, about: their results stay in L2 beside what they are made of */
  BLOCK_BYTES = 256 * 1024, /* of a block's image: the same */
  NEAR_BYTES = 32 * 1024,   /* of weights that stay in L1 */
  SAME_SETS = 128,          /* numbers: pixels so many apart share few sets of L1 */
  TASKS = 16                /* that a product is cut into where its blocks are few */
};

typedef struct product {
  kern_conv c;
  kern_epilogue e;
  bool cheap; /* the epilogue is a bias, a residual and limits */
  float limits[2];
  kern_chain *front; /* makes the pixels of x; NULL: they are there */
  const char *x;
  int64_t x_pitch, x_size; /* numbers from pixel to pixel, with channels first from line to line; bytes of one */
  int64_t channels;        /* numbers of a pixel of the image */
  const uint16_t *w;
  const uint16_t *residual; /* of bf16; NULL: there is none, or the epilogue has it */
  int64_t residual_pitch;
  char *out;
  int64_t out_pitch, out_size;
  int64_t blocks, words; /* of a tap; pairs of a block */
  int64_t panels, panel; /* bytes of one */
  int64_t phase[2];      /* of lines, of pixels of a line */
  int64_t pixel;         /* numbers from what an output pixel sees to what the next one does */
  int64_t runs;          /* taps, or rows of taps */
  int64_t lines, line;   /* of a phase; pixels of one */
  int64_t block_lines;   /* of output */
  int64_t *run;          /* amx_tile.run: of each tap */
  bool lies;             /* x is the image */
  const uint16_t *image; /* of a block */
  uint16_t *room;        /* for it; NULL: it lies */
  float *made;           /* lines of x by `front` */
} product;

/* Output lines [y, y + count) of a plane of a sample. */
typedef struct block {
  int64_t sample, plane, y, count;
} block;

/* ---- the image of a block ---- */

/* n numbers of x. */
static void take_numbers(const product *p, const char *from, int64_t n, uint16_t *to) {
  const float *at = (const float *)from;
  if (p->x_size == sizeof *to) {
    memcpy(to, from, (size_t)n * sizeof *to);
    return;
  }
  for (; n >= 2 * V_LANES; n -= 2 * V_LANES, at += 2 * V_LANES, to += 2 * V_LANES) {
    const vf pairs = p_narrow(at);
    memcpy(to, &pairs, sizeof pairs);
  }
  write_bf16(to, at, n);
}

/* Pairs of bf16 of n pixels of two planes; NULL: zeros. */
V_INLINE words take_pairs(const float *first, const float *second, int64_t n) {
  const words low = of_16((lanes_u16)p_round(first ? v_load_n(first, n) : v_zero()));
  return low | of_16((lanes_u16)p_round(second ? v_load_n(second, n) : v_zero())) << 16;
}

/* A line of an image with channels first, all its phases, which begins at `from` in the first plane. */
static void take_planes(const product *p, const char *from, int64_t plane, uint16_t *to) {
  const kern_conv_axis *a = &p->c.axis[2];
  const int64_t whole = p->line * a->stride, pairs = p->channels / 2;
  const int64_t first = from ? base_max_i64(base_min_i64(a->begin, whole), 0) : whole;
  const int64_t last = base_max_i64(base_min_i64(a->in + a->begin, whole), first);
  memset(to, 0, (size_t)(first * p->channels) * sizeof *to);
  memset(to + last * p->channels, 0, (size_t)((whole - last) * p->channels) * sizeof *to);
  for (int64_t i = first, n; i < last; i += n) {
    uint32_t *pixel = (uint32_t *)(void *)(to + i * p->channels);
    const float *at = (const float *)from + i - a->begin;
    n = base_min_i64(V_LANES, last - i);
    for (int64_t c = 0; c < pairs; c++) {
      const float *one = at + 2 * c * plane;
      const words some =
          take_pairs(2 * c < p->c.group_in ? one : NULL, 2 * c + 1 < p->c.group_in ? one + plane : NULL, n);
      for (int64_t k = 0; k < n; k++) pixel[k * pairs + c] = some[k];
    }
  }
}

/* Pixels of one phase of a line of x, which begins at `from`; NULL: it lies beside x. */
static void take_line(const product *p, const char *from, int64_t phase, uint16_t *to) {
  const kern_conv_axis *a = &p->c.axis[2];
  const int64_t channels = p->c.group_in, stored = p->channels, before = a->begin - phase;
  const int64_t first = from ? base_min_i64(base_max_i64(base_ceil_div(before, a->stride), 0), p->line) : p->line;
  const int64_t last = base_max_i64(base_min_i64(base_ceil_div(a->in + before, a->stride), p->line), first);
  memset(to, 0, (size_t)(first * stored) * sizeof *to);
  memset(to + last * stored, 0, (size_t)((p->line - last) * stored) * sizeof *to);
  if (last == first) return;
  const int64_t pitch = p->x_pitch * p->x_size;
  from += (first * a->stride - before) * pitch;
  to += first * stored;
  if (a->stride == 1 && p->x_pitch == channels && channels == stored) {
    take_numbers(p, from, (last - first) * channels, to);
    return;
  }
  for (int64_t i = first; i < last; i++, from += a->stride * pitch, to += stored) {
    take_numbers(p, from, channels, to);
    memset(to + channels, 0, (size_t)(stored - channels) * sizeof *to);
  }
}

/* One plane of x, in lines from `first` on. */
static const char *lines_of(const product *p, int64_t plane, int64_t first, int64_t last) {
  const kern_conv_axis *a = p->c.axis;
  const int64_t pixel = (plane * a[1].in + first) * a[2].in, channels = p->c.group_in;
  const kern_chain_tile t = {.sums = p->made,
                             .pitch = channels,
                             .row = pixel,
                             .row_step = 1,
                             .rows = (last - first) * a[2].in,
                             .columns = channels};
  if (p->c.channels_first) return p->x + (plane * a[1].in + first) * p->x_pitch * p->x_size;
  if (!p->front) return p->x + pixel * p->x_pitch * p->x_size;
  if (last > first) kern_chain_run(p->front, &t);
  return (const char *)p->made;
}

static void make_image(product *p, const block *b) {
  const kern_conv_axis *a = p->c.axis, *y = &a[1];
  p->image = p->lies ? (const uint16_t *)(const void *)p->x + b->y * p->x_pitch : p->room;
  if (p->lies) return;
  const int64_t begin = b->y * y->stride - y->begin, seen = (b->count - 1) * y->stride + (y->kernel - 1) * y->dilation;
  const int64_t first = base_min_i64(base_max_i64(begin, 0), y->in);
  const int64_t last = base_max_i64(base_min_i64(begin + seen + 1, y->in), first);
  const bool planes = p->c.channels_first;
  const int64_t line = (planes ? 1 : a[2].in) * p->x_pitch * p->x_size, size = p->line * p->pixel;
  const int64_t sample = b->sample * (planes ? p->c.group_in : 1) * a[0].in, channel = a[0].in * a[1].in * p->x_pitch;
  uint16_t *to = p->room;
  for (int64_t tap = 0; tap < a[0].kernel; tap++) {
    const int64_t z = b->plane * a[0].stride - a[0].begin + tap * a[0].dilation;
    const char *plane = z >= 0 && z < a[0].in ? lines_of(p, sample + z, first, last) : NULL;
    for (int64_t i = 0; i < p->phase[0] * p->phase[1]; i++)
      for (int64_t n = 0; n < p->lines; n++, to += size) {
        const int64_t at = begin + n * y->stride + i / p->phase[1];
        const bool there = plane && at >= first && at < last;
        const char *from = there ? plane + (at - first) * line : NULL;
        if (planes) take_planes(p, from, channel, to);
        else take_line(p, from, i % p->phase[1], to);
      }
  }
}

/* Bytes from a pixel of the image to each tap of the window that begins there. */
static void find_runs(const product *p) {
  const kern_conv_axis *a = p->c.axis;
  const int64_t row = p->c.channels_first ? 1 : a[2].kernel; /* taps of one */
  for (int64_t tap = 0; tap < p->runs; tap++) {
    const int64_t y = tap / row % a[1].kernel * a[1].dilation, x = tap % row * a[2].dilation;
    int64_t at = tap / row / a[1].kernel * p->phase[0] + y % a[1].stride;
    at = at * p->phase[1] + x % a[2].stride;
    at = (at * p->lines + y / a[1].stride) * p->line + x / a[2].stride;
    p->run[tap] = at * p->pixel * (int64_t)sizeof *p->image;
  }
}

/* ---- sums ---- */

V_INLINE vf load_bf16(const uint16_t *from, int64_t n) {
  lanes_bf16 some = {0};
  if (n == V_LANES) memcpy(&some, from, sizeof some);
  else memcpy(&some, from, (size_t)n * sizeof *from);
  return p_widen(some);
}

V_INLINE void store_bf16(uint16_t *to, vf x, int64_t n) {
  const lanes_bf16 some = p_round(x);
  if (n == V_LANES) memcpy(to, &some, sizeof some);
  else memcpy(to, &some, (size_t)n * sizeof *to);
}

/* The cheap epilogue of a row; `half`: its residual, of bf16, NULL: none. */
V_TEMPLATE void finish_row(const product *p, const kern_epilogue *e, const uint16_t *half, const float *sums,
                           int64_t columns, char *to, const bool narrow) {
  const vf low = v_set(p->limits[0]), high = v_set(p->limits[1]);
  for (int64_t i = 0; i < columns; i += V_LANES) {
    const int64_t lanes = base_min_i64(V_LANES, columns - i);
    vf t = v_load(sums + i);
    if (e->bias) t = v_add(t, v_load_n(e->bias + i, lanes));
    if (!e->late) t = v_min(high, v_max(low, t));
    if (half) t = v_add(t, load_bf16(half + i, lanes));
    if (e->residual) t = v_add(t, v_load_n(e->residual + i, lanes));
    if (e->late) t = v_min(high, v_max(low, t));
    if (narrow) store_bf16((uint16_t *)to + i, t, lanes);
    else v_store_n((float *)to + i, t, lanes);
  }
}

/* The cheap epilogue of rows of AMX_WIDTH columns; `half` as above. */
V_TEMPLATE void finish_whole(const product *p, const kern_epilogue *e, const uint16_t *half, const float *sums,
                             int64_t rows, char *to, const bool narrow) {
  const vf least = v_set(-INFINITY), most = v_set(INFINITY), low = v_set(p->limits[0]), high = v_set(p->limits[1]);
  const vf early_low = e->late ? least : low, early_high = e->late ? most : high;
  const vf late_low = e->late ? low : least, late_high = e->late ? high : most;
  const float *wide = e->residual;
  vf bias[AMX_PANELS];
  for (int i = 0; i < AMX_PANELS; i++) bias[i] = e->bias ? v_load(e->bias + i * V_LANES) : v_set(-0.0f);
  for (int64_t r = 0; r < rows; r++, sums += AMX_WIDTH, to += p->out_pitch * p->out_size) {
    vf t[AMX_PANELS];
    V_UNROLL
    for (int i = 0; i < AMX_PANELS; i++) {
      t[i] = v_min(early_high, v_max(early_low, v_add(v_load(sums + i * V_LANES), bias[i])));
      if (half) t[i] = v_add(t[i], load_bf16(half + i * V_LANES, V_LANES));
      if (wide) t[i] = v_add(t[i], v_load(wide + i * V_LANES));
      t[i] = v_min(late_high, v_max(late_low, t[i]));
      if (!narrow) v_store((float *)to + i * V_LANES, t[i]);
    }
    V_UNROLL
    for (int i = 0; narrow && i < AMX_PANELS; i += 2) {
      const vf pairs = p_round_two(t[i], t[i + 1]);
      memcpy(to + i * V_LANES * 2, &pairs, sizeof pairs);
    }
    if (half) half += p->residual_pitch;
    if (wide) wide += e->residual_pitch;
  }
}

/* The whole epilogue in place, and the sums to where they go. */
static void finish_dear(const product *p, kern_epilogue *e, const uint16_t *half, float *sums, int64_t rows,
                        int64_t columns, char *to) {
  float wide[MOST_ROWS * AMX_WIDTH];
  for (int64_t r = 0; half && r < rows; r++) read_bf16(wide + r * AMX_WIDTH, half + r * p->residual_pitch, columns);
  if (half) e->residual = wide;
  if (half) e->residual_pitch = AMX_WIDTH;
  KERN_NAME(epilogue_rows)(e, sums, AMX_WIDTH, rows, columns);
  for (int64_t r = 0; r < rows; r++, to += p->out_pitch * p->out_size, sums += AMX_WIDTH) {
    if (p->out_size == sizeof *sums) memcpy(to, sums, (size_t)columns * sizeof *sums);
    else write_bf16(to, sums, columns);
  }
}

/* Sums of pixels from number `pixel` of the output on, from its column on. */
static void finish(const product *p, float *sums, int64_t pixel, int64_t rows, int64_t column, int64_t columns) {
  kern_epilogue e = kern_epilogue_at(&p->e, pixel, column);
  const uint16_t *half = p->residual ? p->residual + pixel * p->residual_pitch + column : NULL;
  char *to = p->out + (pixel * p->out_pitch + column) * p->out_size;
  if (!p->cheap) {
    finish_dear(p, &e, half, sums, rows, columns, to);
    return;
  }
  if (columns == AMX_WIDTH) {
    if (p->out_size == sizeof *sums) finish_whole(p, &e, half, sums, rows, to, false);
    else finish_whole(p, &e, half, sums, rows, to, true);
    return;
  }
  for (int64_t r = 0; r < rows; r++, to += p->out_pitch * p->out_size, sums += AMX_WIDTH) {
    if (p->out_size == sizeof *sums) finish_row(p, &e, half, sums, columns, to, false);
    else finish_row(p, &e, half, sums, columns, to, true);
    if (e.residual) e.residual += e.residual_pitch;
    if (half) half += p->residual_pitch;
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

typedef struct rows_cut {
  int64_t first, count, tall; /* rows of each tile */
} rows_cut;

/* Rows of each tile that `count` rows make, at least one. */
static int64_t even_rows(int64_t count) { return base_ceil_div(count, base_ceil_div(count, MOST_ROWS)); }

/* `count` rows of the image from `first` on, in tiles of `tall`: the one that begins `row` behind `first`, times some
 * panels. All tiles have as many rows, so that the last one may begin with rows of the one before. */
static void multiply_tile(const product *p, const block *b, const rows_cut *cut, int64_t row, int64_t panel,
                          int64_t panels) {
  _Alignas(64) float sums[MOST_ROWS * AMX_WIDTH];
  const int64_t from = base_min_i64(row, cut->count - cut->tall), done = row - from, first = cut->first;
  const int64_t pixel = p->pixel * (int64_t)sizeof *p->image, block_bytes = p->words * (int64_t)sizeof(uint32_t);
  const int64_t column = panel * V_LANES, columns = base_min_i64(panels * V_LANES, p->c.group_out - column);
  const char *at = (const char *)p->image + (first + from) * pixel;
  const amx_tile t = {.a = {at, at + AMX_ROWS * pixel},
                      .a_pitch = pixel,
                      .a_block = block_bytes,
                      .run = p->run,
                      .runs = p->runs,
                      .blocks = p->blocks,
                      .b = (const char *)p->w + panel * p->panel,
                      .b_block = block_bytes * V_LANES,
                      .b_panel = p->panel,
                      .sums = sums};
  if (p->blocks > 0) KERN_PART_NAME(amx_bf16)(&t, cut->tall, panels);
  else memset(sums, 0, sizeof sums);
  finish_rows(p, b, sums + done * AMX_WIDTH, first + row, first + from + cut->tall, column, columns);
}

/* Panels [panel, end) of a block whose image is made. Tiles run on from line to line where that makes fewer. Where L1
 * holds the weights, rows of the result are written one after the other; else panels are. */
static void multiply_block(const product *p, const block *b, int64_t panel, int64_t end) {
  const int64_t width = p->c.axis[2].out, whole = (b->count - 1) * p->line + width;
  const bool run_on = base_ceil_div(whole, MOST_ROWS) <= b->count * base_ceil_div(width, MOST_ROWS);
  const int64_t spans = run_on ? 1 : b->count, count = run_on ? whole : width, tall = even_rows(count);
  const int64_t quads = (end - panel) / AMX_PANELS, rest = (end - panel) % AMX_PANELS;
  const int64_t groups = quads + rest / 2 + rest % 2, tiles = base_ceil_div(count, tall);
  const bool near = (end - panel) * p->panel <= NEAR_BYTES;
  if (p->blocks > 0) amx_begin(tall, p->words);
  for (int64_t i = 0; i < spans; i++) {
    const rows_cut cut = {i * p->line, count, tall};
    for (int64_t n = 0; n < groups * tiles; n++) {
      const int64_t group = near ? n % groups : n / tiles, row = (near ? n / groups : n % tiles) * tall;
      const int64_t behind = group - quads, panels = behind < 0 ? AMX_PANELS : behind == 0 && rest > 1 ? 2 : 1;
      multiply_tile(p, b, &cut, row, panel + base_min_i64(group, quads) * AMX_PANELS + (behind > 0 ? 2 : 0), panels);
    }
  }
}

/* ---- how a product is cut ---- */

/* A window of one pixel, which begins where the image does, takes pixels one by one: true. */
static bool merge_lines(kern_conv *c) {
  kern_conv_axis *a = c->axis;
  bool own = c->taps == 1 && !c->channels_first;
  for (int i = 0; i < KERN_CONV_AXES; i++) own &= a[i].stride == 1 && a[i].begin == 0 && a[i].in == a[i].out;
  if (!own) return false;
  a[1].in = a[1].out = c->batch * c->out_size;
  a[0].in = a[0].out = a[2].in = a[2].out = c->batch = 1;
  return true;
}

static void set_sizes(product *p) {
  kern_conv *c = &p->c;
  p->lies = merge_lines(c) && !p->front && p->x_size == sizeof *p->w && c->stored == c->group_in;
  const kern_conv_axis *a = c->axis;
  const int64_t pairs = c->stored / 2, reach[] = {(a[1].kernel - 1) * a[1].dilation, (a[2].kernel - 1) * a[2].dilation};
  p->runs = c->channels_first ? c->taps / a[2].kernel : c->taps;
  p->blocks = c->taps > 0 ? base_ceil_div(pairs, AMX_ROWS) : 0;
  p->words = p->blocks ? pairs / p->blocks : 0;
  p->panels = base_ceil_div(c->group_out, V_LANES);
  p->pixel = c->stored % SAME_SETS ? c->stored : c->stored + AMX_BYTES / (int64_t)sizeof *p->image;
  if (p->lies) p->pixel = p->x_pitch;
  p->channels = p->pixel;
  if (c->channels_first) p->channels = c->stored / a[2].kernel;
  if (c->channels_first) p->pixel = p->channels * a[2].stride;
  p->panel = p->runs * c->stored * V_LANES * (int64_t)sizeof *p->w;
  for (int i = 0; i < 2; i++) p->phase[i] = base_max_i64(base_min_i64(a[1 + i].stride, reach[i] + 1), 1);
  if (c->channels_first) p->phase[1] = 1;
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
  p->run = base_call_scratch(call, (size_t)p->runs, sizeof *p->run);
  p->room = p->lies ? NULL : base_call_scratch(call, (size_t)count, sizeof *p->room);
  p->made = p->front ? base_call_scratch(call, (size_t)front, sizeof *p->made) : NULL;
  if (!p->run || (!p->lies && !p->room) || (p->front && !p->made)) return base_no_memory(call->err, "scratch");
  find_runs(p);
  return TD_OK;
}

static td_status multiply(const base_call *call, product *p) {
  const base_tensor *out = base_out(call, 0);
  if (base_tensor_numel(out) == 0) return TD_OK;
  const base_tensor *x = base_in(call, 0), *residual = base_in(call, KERN_IN_RESIDUAL);
  p->w = base_in(call, 1)->data;
  p->x = x->data;
  p->x_size = base_dtype(x->dtype)->bits / 8;
  p->out = out->data;
  p->out_pitch = kern_pitch(out);
  p->out_size = base_dtype(out->dtype)->bits / 8;
  TRY(KERN_NAME(product_of)(call, &p->e, &p->front));
  p->x_pitch = p->front ? p->c.group_in : kern_pitch(x);
  if (residual && residual->dtype == TD_BF16) {
    p->residual = residual->data;
    p->residual_pitch = p->e.residual_pitch;
    p->e.residual = NULL;
  }
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
                     .out_size = 1}};
  p.c.stored = kern_tiles_depth(p.c.group_in);
  for (int32_t i = 0; i < x->rank - 1; i++) p.c.out_size *= x->dims[i];
  return multiply(call, &p);
}

td_status KERN_PART_NAME(conv_bf16_amx)(const base_call *call) {
  product p = {.x_size = 0};
  TRY(kern_conv_of(call, false, &p.c));
  return multiply(call, &p);
}
