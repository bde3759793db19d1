/* gemm.c -- products as grids of tasks, and a task as a walk over tiles.
 *
 * Within a task a block of B (kc rows of a group of panels) stays in the nearest cache that holds it while the rows of
 * the chunk pass by, and the chunk of A stays in L2 while the groups pass by. */
#include "kernels/gemm_priv.h"

enum {
  BLOCK_K = 1024,       /* rows of B in a block, at most */
  L1_FLOATS = 8 << 10,  /* of a smaller B, all groups stay near */
  L2_FLOATS = 64 << 10, /* a part of the smallest L2 worth tuning for: what a chunk has of A, and what stays of B */
  TASK_FLOPS = 1 << 19, /* some 5 us */
  TASKS = 24            /* three for each of eight threads */
};

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

gemm_grid KERN_NAME(gemm_grid)(int64_t m, int64_t n, int64_t k) {
  gemm_grid grid = {.panels = ceil_div(n, V_LANES)};
  grid.groups = ceil_div(grid.panels, m == 1 ? GEMM_THIN_PANELS : GEMM_MAX_PANELS);
  grid.tiles = ceil_div(m, gemm_max_rows(ceil_div(grid.panels, grid.groups)));
  /* A tile costs something without any k, and a weight as much as it takes to read. */
  double flops = 2.0 * (double)m * (double)n * (double)(k + 16) + 8.0 * (double)k * (double)n;
  int64_t most = (int64_t)fmin(flops / TASK_FLOPS + 1, 1 << 20);
  int64_t kc = base_min_i64(k, BLOCK_K);
  grid.row_chunks = base_min_i64(grid.tiles, ceil_div(m * kc, L2_FLOATS));
  grid.column_chunks = base_min_i64(grid.groups, most);
  if (grid.row_chunks * grid.column_chunks < TASKS)
    grid.row_chunks = base_min_i64(grid.tiles, ceil_div(TASKS, grid.column_chunks));
  if (grid.row_chunks * grid.column_chunks > most) {
    grid.column_chunks = base_max_i64(1, base_min_i64(grid.groups, most / grid.row_chunks));
    grid.row_chunks = base_max_i64(1, base_min_i64(grid.row_chunks, most / grid.column_chunks));
  }
  grid.rows_first = m * kc > L2_FLOATS && (n * kc <= 2 * L2_FLOATS || grid.row_chunks * n < m);
  return grid;
}

/* Rows of a chunk times one group, k in [k0, k1). */
static void block(const gemm_product *g, const gemm_grid *grid, int64_t tile, int64_t last_tile, int64_t group,
                  int64_t k0, int64_t k1) {
  int64_t panel = gemm_split(grid->panels, grid->groups, group);
  int64_t panels = gemm_split(grid->panels, grid->groups, group + 1) - panel, column = panel * V_LANES;
  const float *rows[GEMM_MAX_ROWS];
  gemm_tile t = {.a = rows,
                 .taps = 1,
                 .k = k1 - k0,
                 .b = g->b + column * g->k + k0 * V_LANES,
                 .b_panel = g->k * V_LANES,
                 .c_pitch = g->c_pitch,
                 .columns = base_min_i64(panels * V_LANES, g->n - column),
                 .more = k0 > 0};
  /* The tiles of this group that run now share out the fetching of the next group, where B does not stay near. */
  if (g->k * g->n > L1_FLOATS && group + 1 < grid->groups) {
    int64_t first = grid->rows_first ? tile : 0, tiles = grid->rows_first ? last_tile - tile : grid->tiles;
    t.ahead_step = ceil_div(panels * V_LANES, tiles);
    t.ahead = t.b + panels * t.b_panel + (tile - first) * t.ahead_step * t.k;
  }
  int64_t from = gemm_split(g->m, grid->tiles, tile);
  for (; tile < last_tile; tile++) {
    int64_t to = gemm_split(g->m, grid->tiles, tile + 1);
    for (int64_t r = from; r < to; r++) rows[r - from] = g->a + r * g->a_pitch + k0;
    t.c = g->c + from * g->c_pitch + column;
    const kern_epilogue e = kern_epilogue_at(g->e, from, column);
    KERN_NAME(gemm_tile)(&t, to - from, panels, k1 == g->k ? &e : NULL);
    if (t.ahead) t.ahead += t.ahead_step * t.k;
    from = to;
  }
}

void KERN_NAME(gemm_task)(const gemm_product *g, const gemm_grid *grid, int64_t task) {
  int64_t inner = grid->rows_first ? grid->column_chunks : grid->row_chunks;
  int64_t row = grid->rows_first ? task / inner : task % inner, column = grid->rows_first ? task % inner : task / inner;
  int64_t tile = gemm_split(grid->tiles, grid->row_chunks, row);
  int64_t last_tile = gemm_split(grid->tiles, grid->row_chunks, row + 1);
  int64_t last_group = gemm_split(grid->groups, grid->column_chunks, column + 1);
  int64_t blocks = base_max_i64(1, ceil_div(g->k, BLOCK_K));
  for (int64_t i = 0; i < blocks; i++)
    for (int64_t group = gemm_split(grid->groups, grid->column_chunks, column); group < last_group; group++)
      block(g, grid, tile, last_tile, group, gemm_split(g->k, blocks, i), gemm_split(g->k, blocks, i + 1));
}
