/* memory.c -- how many bytes of the arena are in use at each step, and which values make its peak. */
#include <stdlib.h>

#include "profile/profile_priv.h"

uint64_t *prof_live_bytes(const prof_source *source, base_arena *arena) {
  const uint32_t steps = source->recorder->options.steps;
  uint64_t *live = base_new(arena, uint64_t, steps + (size_t)2);
  if (!live) return NULL;
  for (uint32_t i = 0; i < source->block_count; i++) {
    const prof_block *b = &source->blocks[i];
    if (b->first >= steps) continue;
    live[b->first] += b->bytes;
    live[(b->last < steps ? b->last : steps - 1) + 1] -= b->bytes; /* modulo 2^64: sums come out right */
  }
  for (uint32_t i = 1; i < steps; i++) live[i] += live[i - 1];
  return live;
}

static uint32_t peak_step(const uint64_t *live, uint32_t steps) {
  uint32_t at = 0;
  for (uint32_t i = 1; i < steps; i++)
    if (live[i] > live[at]) at = i;
  return at;
}

/* ---- the map: a row per some steps, a column per part of the arena ---- */

enum { MAP_ROWS = 24, MAP_COLUMNS = 64 };

static bool meets(const prof_block *b, uint32_t first, uint32_t end, double from, double to) {
  return b->first < end && b->last >= first && (double)b->offset < to && (double)(b->offset + b->bytes) > from;
}

static void put_map(const prof_source *source, const uint64_t *live, uint32_t steps, prof_out *out) {
  const uint32_t rows = steps < MAP_ROWS ? steps : MAP_ROWS;
  const double column = (double)source->arena_bytes / MAP_COLUMNS;
  prof_put(out, "arena over time, # in use: a row per some steps, from address 0 to its end\n");
  for (uint32_t r = 0; r < rows; r++) {
    const uint32_t first = (uint32_t)((uint64_t)steps * r / rows), end = (uint32_t)((uint64_t)steps * (r + 1) / rows);
    char cells[MAP_COLUMNS + 1] = {0};
    uint64_t most = 0;
    for (uint32_t i = first; i < end; i++) most = live[i] > most ? live[i] : most;
    for (uint32_t c = 0; c < MAP_COLUMNS; c++) {
      cells[c] = '.';
      for (uint32_t i = 0; i < source->block_count && cells[c] == '.'; i++)
        if (meets(&source->blocks[i], first, end, column * c, column * (c + 1))) cells[c] = '#';
    }
    prof_print(out, "%6u |%s| %12llu bytes\n", first, cells, (unsigned long long)most);
  }
}

/* ---- the peak ---- */

static int larger_first(const void *a, const void *b) {
  const prof_block *x = *(const prof_block *const *)a, *y = *(const prof_block *const *)b;
  return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static td_status put_peak(const prof_source *source, uint32_t step, uint64_t bytes, uint32_t limit, base_arena *arena,
                          prof_out *out, td_error *err) {
  const prof_block **alive = base_new(arena, const prof_block *, source->block_count + (size_t)1);
  uint32_t count = 0;
  if (!alive) return base_no_memory(err, "the map of an arena");
  for (uint32_t i = 0; i < source->block_count; i++)
    if (source->blocks[i].first <= step && source->blocks[i].last >= step) alive[count++] = &source->blocks[i];
  qsort(alive, count, sizeof *alive, larger_first);
  const base_str node = prof_node_name(&source->steps[step]);
  prof_print(out, "peak: %llu bytes at step %u, %.*s; what is in use there:\n", (unsigned long long)bytes, step,
             (int)(node.length < 400 ? node.length : 400), node.at);
  prof_print(out, "%14s %8s %8s  %s\n", "bytes", "from", "to step", "made by");
  for (uint32_t i = 0; i < count && (limit == 0 || i < limit); i++) {
    const base_str maker = prof_node_name(&source->steps[alive[i]->first]);
    prof_print(out, "%14llu %8u %8u  %.*s\n", (unsigned long long)alive[i]->bytes, alive[i]->first, alive[i]->last,
               (int)(maker.length < 400 ? maker.length : 400), maker.at);
  }
  return TD_OK;
}

td_status prof_write_memory(const prof_source *source, const td_profile_view *view, const td_allocator *allocator,
                            prof_out *out, td_error *err) {
  const uint32_t steps = source->recorder->options.steps;
  base_arena *arena = base_arena_new(allocator);
  const uint64_t *live = arena ? prof_live_bytes(source, arena) : NULL;
  if (!live) {
    base_arena_free(arena);
    return base_no_memory(err, "the map of an arena");
  }
  prof_print(out, "arena: %llu bytes; no plan can do with less than %llu\n", (unsigned long long)source->arena_bytes,
             (unsigned long long)source->arena_lower);
  td_status status = TD_OK;
  if (source->block_count && steps) {
    const uint32_t peak = peak_step(live, steps);
    put_map(source, live, steps, out);
    status = put_peak(source, peak, live[peak], view->limit, arena, out, err);
  }
  base_arena_free(arena);
  return status;
}
