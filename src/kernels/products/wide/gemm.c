/* gemm.c -- products as grids of tasks, and a task as a walk over tiles.
 *
 * Within a task a block of B (kc rows of a group of panels) stays in the nearest cache that holds it while the rows of
 * the chunk pass by, and the chunk of A stays in L2 while the groups pass by. */
#include "kernels/products/gemm_priv.h"
#include "kernels/tasks_priv.h"
#include "kernels/simd/wide/transpose_priv.h"

enum {
  LINE = V_LANES * 4,  /* bytes of a line of narrow weights */
  L1_FLOATS = 8 << 10, /* of a smaller B, all groups stay near */
  TABLE_TILES = 8,
  /* Rows that are few: with half the registers sums of more take longer than a block that is widened. */
  FEW = GEMM_FEW_ROWS * (V_REGISTERS == 32 ? 2 : 1),
  FEW_SUMS = GEMM_FEW_ROWS * GEMM_MAX_PANELS > GEMM_THIN_PANELS ? GEMM_FEW_ROWS *GEMM_MAX_PANELS : GEMM_THIN_PANELS,
  WIDENED_TASKS = 4,    /* of a worker, that are enough */
  WIDENED_ROWS = 4,     /* times as many rows of A as a chunk has otherwise meet a block that is widened */
  TASK_FLOPS = 1 << 19, /* some 5 us */
  SMALLER = 3,          /* a task may be by so much where many workers come out even by it */
  CHAINED = 64 << 10,   /* sums that lie in L2 until a chain comes: it is fastest on long rows */
  PACKED = 2 << 20      /* floats of A that are packed at most: scratch of each worker */
};

/* Groups of panels that one row meets: as wide as their kernel is, but for many workers. */
static int64_t thin_groups(int64_t panels, uint32_t workers) {
  const int64_t wide = base_ceil_div(panels, GEMM_THIN_PANELS);
  const kern_cuts even = {
      .maps = 1, .size = panels, .tile = panels, .row = 4, .least = wide, .most = panels, .cuts = wide};
  return kern_even_cuts(&even, workers);
}

/* Groups of panels, as wide as a tile takes the fewest loads, or the least of C at a time where k is short. */
static int64_t groups_of(const kern_tuning *t, int64_t panels, int64_t m, int64_t k, uint32_t workers) {
  if (m == 1) return thin_groups(panels, workers);
  return gemm_groups(panels, k >= t->deep_k ? base_min_i64(t->product_panels, GEMM_MAX_PANELS) : GEMM_MAX_PANELS);
}

gemm_grid KERN_NAME(gemm_grid)(const base_call *call, int64_t m, int64_t n, int64_t k) {
  const kern_tuning *t = kern_tuning_of(call);
  gemm_grid grid = {.panels = base_ceil_div(n, V_LANES), .tuning = t};
  grid.groups = groups_of(t, grid.panels, m, k, call->workers);
  grid.tiles = base_ceil_div(m, gemm_tile_rows(t, base_ceil_div(grid.panels, grid.groups)));
  /* A tile costs something without any k, and a weight as much as it takes to read. */
  double flops = 2.0 * (double)m * (double)n * (double)(k + 16) + 8.0 * (double)k * (double)n;
  int64_t most = (int64_t)fmin(flops / TASK_FLOPS + 1, 1 << 20);
  int64_t kc = base_min_i64(k, t->block_k);
  grid.row_chunks = base_min_i64(grid.tiles, base_ceil_div(m * kc, t->chunk_floats));
  grid.column_chunks = base_min_i64(grid.groups, most);
  const int64_t wanted = kern_tasks_wanted(call->workers);
  if (grid.row_chunks * grid.column_chunks < wanted)
    grid.row_chunks = base_min_i64(grid.tiles, base_ceil_div(wanted, grid.column_chunks));
  const bool many = call->workers > KERN_FEW_WORKERS && grid.groups <= most; /* each group is a chunk of its own */
  if (grid.row_chunks * grid.column_chunks > most) {
    if (!many) grid.column_chunks = base_max_i64(1, base_min_i64(grid.groups, most / grid.row_chunks));
    grid.row_chunks = base_max_i64(1, base_min_i64(grid.row_chunks, most / grid.column_chunks));
  }
  const int64_t least = base_max_i64(1, base_min_i64(grid.tiles, base_ceil_div(m * kc, t->chunk_floats)));
  const kern_cuts even = {.maps = grid.column_chunks,
                          .size = m,
                          .tile = gemm_tile_rows(t, base_ceil_div(grid.panels, grid.groups)),
                          .row = 1,
                          .least = least,
                          .most = base_max_i64(least, base_min_i64(m, SMALLER * most / grid.column_chunks)),
                          .cuts = grid.row_chunks};
  const int64_t chunks = kern_even_cuts(&even, call->workers);
  if (chunks != grid.row_chunks) { /* of rows, not of whole tiles: each chunk has its own, as many as they need */
    grid.tiles = chunks * base_ceil_div(base_ceil_div(m, chunks), even.tile);
    grid.row_chunks = chunks;
  }
  grid.rows_first = m * kc > t->chunk_floats && (n * kc <= 2 * t->chunk_floats || grid.row_chunks * n < m);
  return grid;
}

bool KERN_NAME(gemm_front_of)(const base_call *call, const gemm_product *g, gemm_grid *grid, gemm_front *front) {
  const int64_t fitting = base_ceil_div(g->m * g->k, grid->tuning->chunk_floats);
  grid->row_chunks = base_min_i64(grid->tiles, base_max_i64(grid->row_chunks, fitting));
  grid->rows_first = true;
  const int64_t rows = base_ceil_div(grid->tiles, grid->row_chunks) * base_ceil_div(g->m, grid->tiles);
  front->chunk = -1;
  front->rows = rows <= INT64_MAX / base_max_i64(front->width, 1)
                    ? base_call_scratch(call, (size_t)(rows * front->width), sizeof *front->rows)
                    : NULL;
  return front->rows != NULL;
}

/* How many groups of panels a row meets on a worker that packs it. */
static int64_t groups_of_worker(const base_call *call, const gemm_grid *grid) {
  const int64_t workers = base_max_i64(call->workers, 1);
  return grid->groups * (grid->rows_first ? base_min_i64(grid->row_chunks, workers) : 1) / workers;
}

/* Are weights narrow, and rows so few that these are widened for each GEMM_FEW_ROWS of them again, not in a block? */
static bool is_few(const gemm_product *g) {
  return g->narrow && (g->m == 1 || (g->m <= FEW && g->narrow->multiply_few));
}

/* Groups narrower than the grid's tiles are for have rows that are not packed: their tiles are others. */
bool KERN_NAME(gemm_packed_of)(const base_call *call, gemm_product *g, const gemm_grid *grid, gemm_packed *packed) {
  const int64_t least = grid->tuning->packed_groups, rows = grid->tiles * GEMM_PACKED_ROWS;
  if (!GEMM_PACKS(GEMM_PACKED_PANELS) || !least || groups_of_worker(call, grid) < least ||
      base_ceil_div(grid->panels, grid->groups) < GEMM_PACKED_PANELS || g->m == 1 || is_few(g) ||
      g->k < grid->tuning->deep_k || g->k < 1 || rows > PACKED / g->k)
    return true;
  packed->tiles = base_call_scratch(call, (size_t)(rows * g->k), sizeof *packed->tiles);
  packed->done = base_call_scratch(call, (size_t)grid->row_chunks, sizeof *packed->done);
  if (!packed->tiles || !packed->done) return false;
  memset(packed->done, 0, (size_t)grid->row_chunks * sizeof *packed->done);
  g->packed = packed;
  return true;
}

/* Blocks of k. */
static int64_t block_count(const gemm_product *g, const gemm_grid *grid) {
  if (g->bf16.c) return 1; /* sums of parts would be rounded */
  return base_max_i64(1, base_ceil_div(g->k, grid->tuning->block_k));
}

static int64_t cut(const gemm_product *g, int64_t blocks, int64_t i) {
  const int64_t step = g->narrow ? g->narrow->step : 1;
  return base_min_i64(g->k, gemm_split(base_ceil_div(g->k, step), blocks, i) * step);
}

/* Floats from panel to panel of a widened block: at 4 KiB all would lie in one set of L1. */
static int64_t widened_pitch(const gemm_product *g, const gemm_grid *grid) {
  const int64_t step = g->narrow->step, steps = base_ceil_div(base_ceil_div(g->k, step), block_count(g, grid));
  return (steps * step + 4) * V_LANES;
}

bool KERN_NAME(gemm_narrow_of)(const base_call *call, const gemm_product *g, gemm_grid *grid) {
  if (g->m == 1) return true;
  const int64_t rows =
      WIDENED_ROWS * grid->tuning->chunk_floats / base_max_i64(1, base_min_i64(g->k, grid->tuning->block_k));
  if (grid->column_chunks >= WIDENED_TASKS * base_max_i64(call->workers, 1))
    grid->row_chunks = base_min_i64(grid->row_chunks, base_ceil_div(g->m, base_max_i64(rows, 1)));
  if (is_few(g)) return true;
  const int64_t panels = base_ceil_div(grid->panels, grid->groups);
  g->narrow->block = base_call_scratch(call, (size_t)(panels * widened_pitch(g, grid)), sizeof *g->narrow->block);
  return g->narrow->block != NULL;
}

/* Rows [row, last_row) times one group, k in [k0, k1). */
typedef struct gemm_block {
  int64_t row, last_row, group, k0, k1;
  const float *packed; /* of the first row, k 0; NULL: none */
} gemm_block;

static int64_t tiles_of(const gemm_grid *grid, int64_t rows, int64_t panels) {
  return base_ceil_div(rows, gemm_tile_rows(grid->tuning, panels));
}

/* Rows [row0, row1), which are chunk `chunk`, in the tiles of a group that GEMM_PACKS; NULL: they are not packed. */
static const float *packed_rows(const gemm_product *g, const gemm_grid *grid, int64_t chunk, int64_t row0,
                                int64_t row1) {
  if (!g->packed) return NULL;
  float *const packed = g->packed->tiles + gemm_split(grid->tiles, grid->row_chunks, chunk) * GEMM_PACKED_ROWS * g->k;
  if (g->packed->done[chunk]) return packed;
  g->packed->done[chunk] = true;
  const int64_t all = row1 - row0, tiles = tiles_of(grid, all, GEMM_PACKED_PANELS);
  float *to = packed;
  for (int64_t tile = 0; tile < tiles; tile++, to += g->k * GEMM_PACKED_ROWS) {
    const int64_t first = gemm_split(all, tiles, tile), rows = gemm_split(all, tiles, tile + 1) - first;
    KERN_NAME(transpose_block)(to, GEMM_PACKED_ROWS, g->a + (row0 + first) * g->a_pitch, g->a_pitch, g->k, rows, 0);
  }
  return packed;
}

/* The tiles of this group that run now share out the fetching of the next group, where B does not stay near. For a
 * single row, which reads at the speed of memory, the CPU's own fetching does better. */
static void fetch_group(gemm_tile *t, const gemm_product *g, const gemm_grid *grid, const gemm_block *b,
                        int64_t panels) {
  if (g->m == 1 || g->narrow || g->k * g->n <= L1_FLOATS || b->group + 1 == grid->groups) return;
  int64_t highest = gemm_tile_rows(grid->tuning, panels), rows = grid->rows_first ? b->last_row - b->row : g->m;
  t->ahead_step = base_ceil_div(panels * V_LANES, base_ceil_div(rows, highest));
  t->ahead = t->b + panels * t->b_panel + (grid->rows_first ? 0 : b->row / highest) * t->ahead_step * t->k;
}

/* The same where weights are widened: the tiles share out the lines of the next group's weights as they are stored. */
static void fetch_narrow(gemm_tile *t, const gemm_narrow *w, const gemm_part *next, int64_t tile, int64_t tiles) {
  const int64_t lines = base_ceil_div(t->k, w->line_rows), all = next->panels * lines,
                first = gemm_split(all, tiles, tile);
  t->ahead = (const float *)(const void *)(w->lines + (next->panel + first / lines) * w->panel_bytes +
                                           (next->k0 / w->line_rows + first % lines) * LINE);
  t->ahead_step = base_ceil_div(all * LINE / (int64_t)sizeof(float), tiles * t->k);
}

/* Do rows come from afar, one after the other? Then each tile fetches those of the next, which gains more. */
static bool rows_are_far(const gemm_product *g, const gemm_grid *grid, const gemm_block *b) {
  if (g->a_pitch != b->k1 - b->k0) return false;
  return grid->rows_first ? b->group == 0
                          : g->m > grid->tuning->far_rows && g->m * g->k > 2 * grid->tuning->chunk_floats;
}

/* `rows` rows from `row` on times a group whose weights are narrow; `e` is of the first. */
static void run_few(const gemm_product *g, const gemm_part *part, int64_t row, int64_t rows, const kern_epilogue *e) {
  _Alignas(64) float sums[FEW_SUMS * V_LANES] = {0};
  const int64_t width = part->panels * V_LANES, columns = base_min_i64(width, g->n - part->panel * V_LANES);
  const float *a = g->a + (row - g->a_row) * g->a_pitch + part->k0;
  float *c = g->c + row * g->c_pitch + part->panel * V_LANES;
  for (int64_t r = 0; r < rows; r++) {
    const float *start = part->k0 > 0 ? c + r * g->c_pitch : e->bias;
    if (start) memcpy(sums + r * width, start, (size_t)columns * sizeof *sums);
  }
  if (g->m == 1) g->narrow->multiply(g->narrow, part, a, sums);
  else g->narrow->multiply_few(g->narrow, part, a, g->a_pitch, rows, sums);
  for (int64_t r = 0; r < rows; r++) memcpy(c + r * g->c_pitch, sums + r * width, (size_t)columns * sizeof *sums);
  kern_epilogue rest = *e;
  rest.bias = NULL;
  if (part->k1 == g->k) KERN_NAME(epilogue_rows)(&rest, c, g->c_pitch, rows, columns);
}

/* The tiles know their rows some tiles ahead: a table filled for each would make its first products wait. */
static void run_block(const gemm_product *g, const gemm_grid *grid, const gemm_block *b) {
  const float *table[TABLE_TILES * GEMM_MAX_ROWS], *from = g->a + (b->row - g->a_row) * g->a_pitch + b->k0;
  int64_t panel = gemm_split(grid->panels, grid->groups, b->group), column = panel * V_LANES;
  int64_t panels = gemm_split(grid->panels, grid->groups, b->group + 1) - panel;
  int64_t all = b->last_row - b->row, tiles = tiles_of(grid, all, panels);
  const bool packs = b->packed && GEMM_PACKS(panels);
  gemm_tile t = {
      .taps = 1,
      .k = b->k1 - b->k0,
      .packed = packs ? b->packed + b->k0 * GEMM_PACKED_ROWS : NULL,
      .b = g->b ? g->b + column * g->k + b->k0 * V_LANES : NULL, /* NULL: they are widened a group at a time */
      .b_panel = g->k * V_LANES,
      .c = g->c + b->row * g->c_pitch + column,
      .c_pitch = g->c_pitch,
      .bf16 = gemm_bf16_at(&g->bf16, b->row, column),
      .columns = base_min_i64(panels * V_LANES, g->n - column),
      .more = b->k0 > 0,
      .rolled = grid->tuning->tile_steps == 1,
      .b_ahead = grid->tuning->b_lines * V_LANES};
  if (b->k1 < g->k) t.bf16.residual = NULL;
  fetch_group(&t, g, grid, b, panels);
  const bool far = !packs && rows_are_far(g, grid, b);
  kern_epilogue e = b->k1 == g->k ? kern_epilogue_at(g->e, b->row, column) : (kern_epilogue){.act = KERN_ACT_none};
  e.chain = NULL;                                                 /* the task's */
  e.bias = g->e->bias && b->k0 == 0 ? g->e->bias + column : NULL; /* every sum starts with it, however k is cut */
  gemm_part next = {.panels = 0};                                 /* whose narrow weights are fetched */
  if (g->narrow) {
    const gemm_part part = {panel, panels, b->k0, b->k1};
    if (b->group + 1 < grid->groups && !far && t.k > 0)
      next = (gemm_part){panel + panels, gemm_split(grid->panels, grid->groups, b->group + 2) - panel - panels, b->k0,
                         b->k1};
    if (is_few(g)) {
      for (int64_t row = b->row, rows; row < b->last_row; row += rows, e = kern_epilogue_at(&e, rows, 0)) {
        rows = base_min_i64(GEMM_FEW_ROWS, b->last_row - row);
        run_few(g, &part, row, rows, &e);
      }
      return;
    }
    t.b = g->narrow->block;
    t.b_panel = widened_pitch(g, grid);
    g->narrow->widen(g->narrow, &part, g->narrow->block, t.b_panel);
  }
  for (int64_t tile = 0, row = 0; tile < tiles;) {
    int64_t end = base_min_i64(tiles, tile + TABLE_TILES), last = gemm_split(all, tiles, end);
    t.a = table;
    for (const float **to = table; row < last; row++, from += g->a_pitch) *to++ = from;
    for (; tile < end; tile++) {
      int64_t rows = all / tiles + (tile < all % tiles);
      if (far) {
        t.ahead = *t.a + rows * g->a_pitch;
        t.ahead_step = rows;
      }
      if (next.panels > 0) fetch_narrow(&t, g->narrow, &next, tile, tiles);
      if (g->pairs) g->pairs->tile(&t, rows, panels, &e);
      else KERN_NAME(gemm_tile)(&t, rows, panels, &e);
      t.a += rows;
      if (packs) t.packed += g->k * GEMM_PACKED_ROWS;
      t.c += rows * g->c_pitch;
      t.bf16 = gemm_bf16_at(&t.bf16, rows, 0);
      e.row += rows; /* kern_epilogue_at would copy all of it, which a short tile feels */
      if (e.residual) e.residual += rows * e.residual_pitch;
      if (t.ahead && !next.panels) t.ahead += t.ahead_step * t.k;
    }
  }
}

/* The chain on rows [row0, row1) of groups [first, last), which are through all else. */
static void run_chain(const gemm_product *g, const gemm_grid *grid, int64_t row0, int64_t row1, int64_t first,
                      int64_t last) {
  const int64_t from = gemm_split(grid->panels, grid->groups, first) * V_LANES;
  const int64_t end = base_min_i64(g->n, gemm_split(grid->panels, grid->groups, last) * V_LANES);
  const kern_epilogue e = kern_epilogue_at(g->e, row0, from);
  kern_epilogue_chain(&e, g->c + row0 * g->c_pitch + from, g->c_pitch, row1 - row0, end - from);
}

static void fill_front(const gemm_product *g, int64_t row0, int64_t row1) {
  const gemm_front *f = g->front;
  const kern_chain_tile t = {
      .sums = f->rows, .pitch = f->width, .row = row0, .row_step = 1, .rows = row1 - row0, .columns = f->width};
  if (f->chain) kern_chain_run(f->chain, &t);
  const int64_t first = row0 * g->a_pitch;
  if (f->copied)
    gemm_copy_rows(f->rows, (const uint16_t *)(const void *)g->a + first, g->a_pitch, row1 - row0, f->width);
  else if (g->pairs && f->chain) gemm_round_rows(g->pairs, f->rows, f->rows, f->width, row1 - row0, f->width);
  else if (g->pairs) gemm_round_rows(g->pairs, f->rows, g->a + first, g->a_pitch, row1 - row0, f->width);
}

/* The product over rows [row0, row1), which are chunk `chunk`, as its front makes them. */
static gemm_product make_rows(const gemm_product *g, int64_t chunk, int64_t row0, int64_t row1) {
  gemm_product made = *g;
  made.a = g->front->rows;
  made.a_pitch = g->k;
  made.a_row = row0;
  if (g->front->chunk != chunk) fill_front(g, row0, row1);
  g->front->chunk = chunk;
  return made;
}

void KERN_NAME(gemm_task)(const gemm_product *g, const gemm_grid *grid, int64_t task) {
  gemm_product made;
  int64_t inner = grid->rows_first ? grid->column_chunks : grid->row_chunks;
  int64_t row = grid->rows_first ? task / inner : task % inner, column = grid->rows_first ? task % inner : task / inner;
  int64_t row0 = gemm_split(g->m, grid->tiles, gemm_split(grid->tiles, grid->row_chunks, row));
  int64_t row1 = gemm_split(g->m, grid->tiles, gemm_split(grid->tiles, grid->row_chunks, row + 1));
  if (g->front) {
    made = make_rows(g, row, row0, row1);
    g = &made;
  }
  const float *packed = packed_rows(g, grid, row, row0, row1);
  int64_t last_group = gemm_split(grid->groups, grid->column_chunks, column + 1);
  int64_t blocks = block_count(g, grid), chained = -1;
  for (int64_t i = 0; i < blocks; i++)
    for (int64_t group = gemm_split(grid->groups, grid->column_chunks, column); group < last_group; group++) {
      const gemm_block block = {row0, row1, group, cut(g, blocks, i), cut(g, blocks, i + 1), packed};
      run_block(g, grid, &block);
      if (!g->e->chain || i + 1 < blocks) continue;
      if (chained < 0) chained = group;
      const int64_t panels = gemm_split(grid->panels, grid->groups, group + 2) -
                             gemm_split(grid->panels, grid->groups, chained); /* with those of the next group */
      if (group + 1 < last_group && (row1 - row0) * panels * V_LANES <= CHAINED) continue;
      run_chain(g, grid, row0, row1, chained, group + 1);
      chained = group + 1;
    }
}

td_status KERN_NAME(gemm_run)(const base_call *call, gemm_product *g) {
  gemm_grid grid = KERN_NAME(gemm_grid)(call, g->m, g->n, g->k);
  gemm_packed packed;
  const bool room = !g->narrow || KERN_NAME(gemm_narrow_of)(call, g, &grid);
  if (!room || !(g->front ? KERN_NAME(gemm_front_of)(call, g, &grid, g->front)
                          : g->pairs || KERN_NAME(gemm_packed_of)(call, g, &grid, &packed)))
    return base_no_memory(call->err, "scratch");
  const int64_t tasks = grid.row_chunks * grid.column_chunks;
  for (int64_t task = base_call_first(call, tasks); task < tasks; task = base_call_next(call, task, tasks))
    KERN_NAME(gemm_task)(g, &grid, task);
  return TD_OK;
}
