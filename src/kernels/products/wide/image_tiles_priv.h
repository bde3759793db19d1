/* image_tiles_priv.h -- image_product_priv.h: the image of a block, its tiles, and how the work is cut. Who includes
 * this has tiles:
 *
 *     IMAGE_PANELS, IMAGE_ROWS            the most of a tile
 *     IMAGE_THREES                        there are tiles of three panels
 *     IMAGE_OVERLAPS                      all tiles are as tall, so that the last begins with rows of the one before
 *     IMAGE_RESUMES                       a tile goes on from sums in memory (product_tile.start_pitch)
 *     image_tall(count)                   rows of each tile that `count` rows are cut into
 *     image_begin(rows, words), image_end()   around tiles of so many rows, and words of a block */
#include "kernels/products/gemm_tile_priv.h"
#include "kernels/products/image_product_priv.h"
#include "kernels/tasks_priv.h"

enum {
  BLOCK_ROWS = 768,         /* of a block, about: their results stay in L2 beside what they are made of */
  BLOCK_BYTES = 256 * 1024, /* of a block's image: the same */
  MOST_BYTES = 1280 * 1024, /* where weights, which each block reads again, are larger: of half of L2 */
  GROUP_BYTES = 640 * 1024, /* of the weights that all tiles of a block read: they stay in L2 beside its image */
  NEAR_BYTES = 32 * 1024,   /* of weights that stay in L1 */
  SAME_SETS = 256,          /* bytes: pixels so many apart share few sets of L1 */
  EACH = 3,                 /* tasks of each worker, at least, where lines are cut for them */
  LINE = 64,                /* bytes of a line of the cache */
  IMAGE_WIDTH = IMAGE_PANELS * V_LANES
};

/* Output lines [y, y + count) of a plane of a sample; a group. */
typedef struct block {
  int64_t sample, plane, y, count, group;
} block;

/* ---- the image of a block ---- */

static void make_image(image_product *p, const block *b) {
  const kern_conv_axis *a = p->c.axis, *y = &a[1];
  const char *x = p->x + b->sample * p->x_sample + b->group * p->x_group;
  p->image = p->lies ? x + b->y * p->x_line : p->room;
  if (p->lies) return;
  const int64_t begin = b->y * y->stride - y->begin, seen = (b->count - 1) * y->stride + (y->kernel - 1) * y->dilation;
  const int64_t first = base_min_i64(base_max_i64(begin, 0), y->in);
  const int64_t last = base_max_i64(base_min_i64(begin + seen + 1, y->in), first), size = p->line * p->pixel * p->size;
  char *to = p->room;
  for (int64_t tap = 0; tap < a[0].kernel; tap++) {
    const int64_t z = b->plane * a[0].stride - a[0].begin + tap * a[0].dilation;
    const bool beside = z < 0 || z >= a[0].in;
    const char *plane = beside          ? NULL
                        : p->make_lines ? p->make_lines(p, b->sample * a[0].in + z, first, last, b->group)
                                        : x + z * p->x_plane + first * p->x_line;
    if (p->take_pixels) {
      p->take_pixels(p, plane, last - first, to);
      memset(to + (last - first) * size, 0, (size_t)((p->lines - (last - first)) * size));
      return;
    }
    for (int64_t i = 0; i < p->phase[0] * p->phase[1]; i++)
      for (int64_t n = 0; n < p->lines; n++, to += size) {
        const int64_t at = begin + n * y->stride + i / p->phase[1];
        const bool there = plane && at >= first && at < last;
        p->take(p, there ? plane + (at - first) * p->x_line : NULL, i % p->phase[1], to);
      }
  }
}

/* Bytes from a pixel of the image to each run of the window that begins there. */
static void find_runs(const image_product *p) {
  const kern_conv_axis *a = p->c.axis;
  const int64_t row = p->rows ? 1 : a[2].kernel; /* runs of one of taps */
  for (int64_t i = 0; i < p->runs; i++) {
    const int64_t y = i / row % a[1].kernel * a[1].dilation, x = i % row * a[2].dilation;
    int64_t at = i / row / a[1].kernel * p->phase[0] + y % a[1].stride;
    at = at * p->phase[1] + x % a[2].stride;
    at = (at * p->lines + y / a[1].stride) * p->line + x / a[2].stride;
    p->run[i] = at * p->pixel * p->size;
  }
}

/* ---- tiles ---- */

/* Rows [row, end) of a block's image, where `sums` are those of `row`; what is no pixel of the output is left out. */
static void finish_rows(const image_product *p, const block *b, float *sums, int64_t row, int64_t end, int64_t column,
                        int64_t columns) {
  const kern_conv_axis *a = p->c.axis;
  const int64_t first = ((b->sample * a[0].out + b->plane) * a[1].out + b->y) * a[2].out;
  if (p->line == a[2].out) {
    p->finish(p, sums, first + row, end - row, b->group, column, columns);
    return;
  }
  for (int64_t n; row < end; row += n, sums += n * IMAGE_WIDTH) {
    const int64_t line = row / p->line, x = row % p->line;
    n = base_min_i64((x < a[2].out ? a[2].out : p->line) - x, end - row);
    if (x < a[2].out) p->finish(p, sums, first + line * a[2].out + x, n, b->group, column, columns);
  }
}

/* The rows of a block: spans of `count`, a line of the image apart, in `tiles` tiles of `tall` each. */
typedef struct rows_cut {
  int64_t spans, count, tall, tiles;
  int64_t run, runs; /* of each sum: the others come before and behind */
  bool lines;        /* a span is a line, whose runs beside x may be left out */
} rows_cut;

/* Runs [*first, *end) of a window that are not beside x for all of an output line; one at least. */
static void find_seen(const image_product *p, int64_t line, int64_t *first, int64_t *end) {
  const kern_conv_axis *y = &p->c.axis[1];
  const int64_t row = p->rows ? 1 : p->c.axis[2].kernel, at = line * y->stride - y->begin;
  *first = base_min_i64(base_ceil_div(base_max_i64(-at, 0), y->dilation), y->kernel - 1);
  *end = base_min_i64(base_ceil_div(base_max_i64(y->in - at, 0), y->dilation), y->kernel);
  *end = base_max_i64(*end, *first + 1) * row;
  *first *= row;
}

/* A tile, counted over all spans, times some panels. */
static void multiply_tile(const image_product *p, const block *b, const rows_cut *cut, int64_t tile, int64_t panel,
                          int64_t panels) {
  _Alignas(64) float own[IMAGE_ROWS * IMAGE_WIDTH];
  float *sums = cut->runs < p->runs ? p->partial + tile * (IMAGE_ROWS * IMAGE_WIDTH) : own;
  const int64_t span = tile / cut->tiles, first = span * p->line, row = tile % cut->tiles * cut->tall;
  int64_t run = 0, end = p->runs; /* that are seen */
  if (cut->lines) find_seen(p, b->y + span, &run, &end);
  const int64_t from_run = base_max_i64(cut->run, run), to_run = base_min_i64(cut->run + cut->runs, end);
  if (from_run >= to_run && p->runs > 0) return;
  const int64_t from = IMAGE_OVERLAPS ? base_min_i64(row, cut->count - cut->tall) : row, done = row - from;
  const int64_t rows = base_min_i64(cut->tall, cut->count - from);
  const int64_t pixel = p->pixel * p->size, block_bytes = p->words * (int64_t)sizeof(uint32_t);
  const int64_t column = panel * V_LANES, columns = base_min_i64(panels * V_LANES, p->c.group_out - column);
  const int64_t which = b->group * p->panels + panel;
  const char *w = p->unpack ? p->unpacked : p->w + which * p->panel;
  const bool begun = from_run > run;
  const int32_t *start = begun ? (const int32_t *)sums : p->start ? p->start + which * V_LANES : NULL;
  const char *at = p->image + (first + from) * pixel + b->group * p->a_group + panel * p->a_panel;
  const product_tile t = {.a = {at, at + IMAGE_ROWS / 2 * pixel},
                          .a_pitch = pixel,
                          .a_block = block_bytes,
                          .a_panel = p->a_panel,
                          .run = p->run + from_run,
                          .runs = to_run - from_run,
                          .blocks = p->blocks,
                          .words = p->words,
                          .b = w + from_run * (p->panel / base_max_i64(p->runs, 1)),
                          .b_block = p->words * V_LANES * p->weights,
                          .b_panel = p->panel,
                          .b_near = panels * p->panel < NEAR_BYTES,
                          .start = start,
                          .start_pitch = begun ? IMAGE_WIDTH * (int64_t)sizeof *sums : 0,
                          .sums = sums,
                          .sums_pitch = IMAGE_WIDTH,
                          .scales = p->scales ? p->scales + which * p->scale_panel : NULL,
                          .scale_panel = p->scale_panel,
                          .scale_blocks = p->scale_blocks,
                          .a_low = p->a_low};
  if (p->blocks > 0) p->multiply(&t, rows, panels);
  if (p->blocks > 0 && p->add) p->add(p, &t, rows, panels);
  for (int64_t r = 0; p->blocks == 0 && r < rows; r++)
    for (int64_t i = 0; i < panels * V_LANES; i++)
      ((int32_t *)(void *)sums)[r * IMAGE_WIDTH + i] = start ? start[i] : 0;
  if (to_run == end) finish_rows(p, b, sums + done * IMAGE_WIDTH, first + row, first + from + rows, column, columns);
}

/* Some panels times all tiles: some runs after the other where L2 does not hold the weights of all. */
static void multiply_panels(const image_product *p, const block *b, rows_cut cut, int64_t panel, int64_t panels) {
  const int64_t tiles = cut.spans * cut.tiles, together = tiles > 1 ? p->together : p->runs;
  if (p->unpack) p->unpack(p, b->group, panel, panels, p->unpacked);
  do {
    cut.runs = base_min_i64(together, p->runs - cut.run);
    for (int64_t tile = 0; tile < tiles; tile++) multiply_tile(p, b, &cut, tile, panel, panels);
    cut.run += cut.runs;
  } while (cut.run < p->runs);
}

/* Group `group` of those that all panels are cut into, `quads` of IMAGE_PANELS and what is left: its first panel. */
static int64_t panels_of(int64_t group, int64_t quads, int64_t rest, int64_t *panels) {
  const int64_t behind = group - quads;
  *panels = behind < 0 ? IMAGE_PANELS : IMAGE_THREES ? rest : behind == 0 && rest > 1 ? 2 : 1;
  return base_min_i64(group, quads) * IMAGE_PANELS + (behind > 0 ? 2 : 0);
}

/* Panels [panel, end) of a block whose image is made. Tiles run on from line to line where that makes fewer of all:
 * how these are cut must not matter, as a weight that is infinite meets zeros beside x then. Where L1 holds the
 * weights, rows of the result are written one after the other; else panels are. */
static void multiply_block(const image_product *p, const block *b, int64_t panel, int64_t end) {
  const int64_t width = p->c.axis[2].out, lines = p->c.axis[1].out, whole = (lines - 1) * p->line + width;
  const bool run_on = base_ceil_div(whole, IMAGE_ROWS) <= lines * base_ceil_div(width, IMAGE_ROWS);
  const int64_t count = run_on ? (b->count - 1) * p->line + width : width, tall = image_tall(count);
  const rows_cut cut = {.spans = run_on ? 1 : b->count,
                        .count = count,
                        .tall = tall,
                        .tiles = base_ceil_div(count, tall),
                        .runs = p->runs,
                        .lines = p->zeros && p->c.axis[0].kernel == 1 && p->runs > 0 && !run_on};
  const int64_t quads = (end - panel) / IMAGE_PANELS, rest = (end - panel) % IMAGE_PANELS;
  const int64_t groups = quads + (IMAGE_THREES ? rest > 0 : rest / 2 + rest % 2);
  const bool near = !p->unpack && (end - panel) * p->panel <= NEAR_BYTES;
  if (p->blocks > 0) image_begin(tall, p->words);
  for (int64_t tile = 0; tile < (near ? cut.spans * cut.tiles : 1); tile++)
    for (int64_t group = 0, panels; group < groups; group++) {
      const int64_t first = panel + panels_of(group, quads, rest, &panels);
      if (near) multiply_tile(p, b, &cut, tile, first, panels);
      else multiply_panels(p, b, cut, first, panels);
    }
}

/* ---- how a product is cut ---- */

bool KERN_PART_NAME(image_merge_lines)(kern_conv *c) {
  kern_conv_axis *a = c->axis;
  bool own = c->taps == 1 && !c->channels_first && !c->row_columns;
  for (int i = 0; i < KERN_CONV_AXES; i++) own &= a[i].stride == 1 && a[i].begin == 0 && a[i].in == a[i].out;
  if (!own) return false;
  a[1].in = a[1].out = c->batch * c->out_size;
  a[0].in = a[0].out = a[2].in = a[2].out = c->batch = 1;
  return true;
}

int64_t KERN_PART_NAME(image_spread)(int64_t stored, int64_t size) {
  return stored * size % SAME_SETS ? stored : stored + LINE / size;
}

void KERN_PART_NAME(image_cut)(image_product *p, uint32_t workers) {
  const kern_conv *c = &p->c;
  const kern_conv_axis *a = c->axis;
  const int64_t reach[] = {(a[1].kernel - 1) * a[1].dilation, (a[2].kernel - 1) * a[2].dilation};
  p->runs = p->rows && a[2].kernel > 0 ? p->c.taps / a[2].kernel : p->c.taps;
  if (p->runs == 0) p->blocks = 0;
  p->panels = base_ceil_div(p->c.group_out, V_LANES);
  p->pixel = p->rows && !p->gathered ? p->channels * a[2].stride : p->channels;
  p->panel = p->runs * p->blocks * p->words * V_LANES * p->weights;
  for (int i = 0; i < 2; i++) p->phase[i] = base_max_i64(base_min_i64(a[1 + i].stride, reach[i] + 1), 1);
  if (p->rows) p->phase[1] = 1;
  p->line = a[2].out + (p->gathered ? 0 : base_max_i64(reach[1], 0) / a[2].stride);
  const int64_t group = IMAGE_PANELS * p->panel;
  p->together = IMAGE_RESUMES && group > GROUP_BYTES ? base_max_i64(GROUP_BYTES / (group / p->runs), 1) : p->runs;
  const int64_t bytes = p->line * base_max_i64(p->pixel, 1) * p->size * p->phase[1];
  const int64_t image = base_max_i64(BLOCK_BYTES, base_min_i64(p->panels * p->panel, MOST_BYTES));
  const int64_t tall = base_max_i64(BLOCK_ROWS / p->line, reach[0] / a[1].stride); /* fewer would be made more often */
  const int64_t most = base_min_i64(tall, image / bytes);
  const int64_t alike = c->batch * a[0].out * c->groups * base_ceil_div(p->panels, IMAGE_PANELS);
  const int64_t wanted = workers > 1 ? base_ceil_div(EACH * workers, base_max_i64(alike, 1)) : 1;
  const int64_t blocks = base_max_i64(base_ceil_div(a[1].out, base_max_i64(most, 1)), wanted);
  p->block_lines = base_max_i64(base_ceil_div(a[1].out, blocks), 1);
  p->lines = p->block_lines + base_max_i64(reach[0], 0) / a[1].stride;
  p->seen = base_min_i64((p->block_lines - 1) * a[1].stride + reach[0] + 1, a[1].in);
}

/* A run may be longer than what it takes of a pixel: there is room for one behind the last. */
static td_status take_room(const base_call *call, image_product *p) {
  const int64_t sizes[] = {p->c.axis[0].kernel, p->phase[0] * p->phase[1], p->lines, p->line, p->pixel, p->size};
  int64_t count;
  if (!base_numel(6, sizes, &count) ||
      __builtin_add_overflow(count, p->blocks * p->words * (int64_t)sizeof(uint32_t), &count))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "the window is too large");
  if (p->together < p->runs) {
    const int64_t tiles = p->block_lines * base_ceil_div(p->c.axis[2].out, IMAGE_ROWS); /* at most */
    p->partial = base_call_scratch(call, (size_t)tiles, IMAGE_ROWS * IMAGE_WIDTH * sizeof *p->partial);
    if (!p->partial) return base_no_memory(call->err, "scratch");
  }
  if (p->unpack) {
    p->unpacked = base_call_scratch(call, (size_t)p->panel + LINE, IMAGE_PANELS); /* and four lines, at least */
    if (!p->unpacked) return base_no_memory(call->err, "scratch");
  }
  p->run = base_call_scratch(call, (size_t)p->runs, sizeof *p->run);
  p->room = p->lies ? NULL : base_call_scratch(call, (size_t)count, 1);
  if (!p->run || (!p->lies && !p->room)) return base_no_memory(call->err, "scratch");
  find_runs(p);
  return TD_OK;
}

td_status KERN_PART_NAME(image_run)(const base_call *call, image_product *p) {
  TRY(take_room(call, p));
  const kern_conv_axis *a = p->c.axis;
  const int64_t in_plane = base_ceil_div(a[1].out, p->block_lines), planes = p->c.batch * a[0].out * in_plane;
  const int64_t blocks = planes * p->c.groups, wides = base_ceil_div(p->panels, IMAGE_PANELS);
  const int64_t parts = base_min_i64(base_ceil_div(kern_tasks_wanted(call->workers), blocks), wides),
                tasks = blocks * parts;
  int64_t made = -1;
  for (int64_t task = base_call_first(call, tasks); task < tasks; task = base_call_next(call, task, tasks)) {
    const int64_t which = task / parts, part = task % parts, n = p->a_group ? which / p->c.groups : which % planes;
    const int64_t y = n % in_plane * p->block_lines, image = p->a_group ? n : which;
    const block b = {.sample = n / in_plane / a[0].out,
                     .plane = n / in_plane % a[0].out,
                     .y = y,
                     .count = base_min_i64(p->block_lines, a[1].out - y),
                     .group = p->a_group ? which % p->c.groups : which / planes};
    if (image != made) make_image(p, &b);
    made = image;
    multiply_block(p, &b, gemm_split(wides, parts, part) * IMAGE_PANELS,
                   base_min_i64(p->panels, gemm_split(wides, parts, part + 1) * IMAGE_PANELS));
    if (p->finish_lines) p->finish_lines(p, (b.sample * a[0].out + b.plane) * a[1].out + y, b.count);
  }
  image_end();
  return TD_OK;
}
