/* frame.c -- locals of a running function, errors with places, guards against programs without end. */
#include <stdio.h>

#include "import/torchscript/ts_priv.h"

/* Depth: calls, blocks and expressions inside each other; each level takes less than 1 KiB of stack. Steps: statements
 * that one import runs. */
enum { MAX_EVAL_DEPTH = 2000, MAX_STEPS = 4000000, MEMORY_CHECK = 256 };

static base_str function_name(const ts_frame *f) { return f->function ? f->function->name : (base_str){"", 0}; }

const char *ts_origin(ts_frame *f, ts_place place, const char *what) {
  const char *where = f->im->source->brief ? ts_brief_place(f->im->archive, f->source, place, function_name(f))
                                           : ts_user_place(f->im->archive, f->source, place, function_name(f));
  const char *path = f->path[0] ? f->path : "model";
  const char *text = where ? base_arena_format(f->im->graph->arena, "%s (%s) %s", path, what, where) : NULL;
  if (!text) ir_build_take(&f->im->build, base_no_memory(f->im->err, f->im->source->file));
  return text ? text : what;
}

void ts_fail(ts_frame *f, ts_place place, td_status status, const char *format, ...) {
  va_list args;
  char what[700];
  ts_import *im = f->im;
  if (!ts_ok(im)) return;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  const char *where = ts_user_place(im->archive, f->source, place, function_name(f));
  ir_build_take(&im->build, base_fail(im->err, status, im->source->file, -1, "%s: %s", where ? where : "?", what));
}

bool ts_enter_depth(ts_frame *f, ts_place place) {
  ts_import *im = f->im;
  if (!ts_ok(im)) return false;
  if (++im->depth > MAX_EVAL_DEPTH)
    ts_fail(f, place, TD_UNSUPPORTED, "calls are nested too deep; does a function call itself?");
  if (++im->steps > MAX_STEPS)
    ts_fail(f, place, TD_NO_RESOURCE, "the program takes more than %d steps to import", MAX_STEPS);
  if (im->steps % MEMORY_CHECK == 0 &&
      base_arena_bytes(im->arena) + base_arena_bytes(im->graph->arena) > im->memory_limit)
    ts_fail(f, place, TD_NO_RESOURCE, "the program makes a graph that is too large for its file");
  if (ts_ok(im)) return true;
  im->depth--;
  return false;
}

ts_local *ts_find_local(ts_frame *f, base_str name) {
  for (; f; f = f->outer) {
    const uint32_t *index = base_map_get(&f->names, name);
    if (index) return &f->locals.at[*index];
  }
  return NULL;
}

ts_local *ts_make_local(ts_frame *f, base_str name) {
  const uint32_t *index = base_map_get(&f->names, name);
  if (index) return &f->locals.at[*index];
  ts_local *local = base_vec_push(f->im->arena, &f->locals);
  if (!local) { /* the vector is gone, and what names stand for with it */
    f->locals.count = 0;
    f->names = (base_map){0};
  }
  if (!local || !base_map_put(&f->names, f->im->arena, name, f->locals.count - 1, NULL)) {
    ir_build_take(&f->im->build, base_no_memory(f->im->err, f->im->source->file));
    return NULL;
  }
  local->name = name;
  return local;
}

void ts_set_local(ts_frame *f, base_str name, aten_value value) {
  ts_local *local = ts_ok(f->im) ? ts_make_local(f, name) : NULL;
  if (!local) return;
  local->value = value;
  local->set = true;
  local->spoiled = NULL;
}

/* ---- where names are used last ----------------------------------------------------------------------------------- */

typedef struct scan {
  ts_function *function;
  base_arena *arena;
  bool failed;
} scan;

static void note_use(scan *s, base_str name, uint32_t offset) {
  const uint32_t *known = base_map_get(&s->function->last_use, name);
  if (known && *known >= offset) return;
  if (!base_map_put(&s->function->last_use, s->arena, name, offset, NULL)) s->failed = true;
}

static void scan_expr(scan *s, const ts_expr *e) {
  if (!e) return;
  if (e->kind == TS_NAME) note_use(s, e->text, e->place.offset);
  for (uint32_t i = 0; i < e->count; i++) scan_expr(s, e->items[i]);
}

static void scan_block(scan *s, const ts_block *block) {
  for (uint32_t i = 0; i < block->count; i++) {
    const ts_stmt *st = &block->at[i];
    for (uint32_t j = 0; j < st->value_count; j++) scan_expr(s, st->values[j]);
    if (st->kind == TS_STORE)
      for (uint32_t j = 0; j < st->target_count; j++) scan_expr(s, st->targets[j]);
    scan_block(s, &st->body);
    scan_block(s, &st->other);
    if (st->function) scan_block(s, &st->function->body);
  }
}

static void scan_uses(ts_import *im, ts_function *function) {
  scan s = {function, im->archive->arena, false};
  if (function->scanned) return;
  function->scanned = true;
  scan_block(&s, &function->body);
  if (s.failed) ir_build_take(&im->build, base_no_memory(im->err, im->source->file));
}

bool ts_is_live(const ts_frame *f, base_str name, uint32_t offset) {
  scan_uses(f->im, f->function);
  const uint32_t *last = base_map_get(&f->function->last_use, name);
  uint32_t from = offset < f->loop_start ? offset : f->loop_start;
  return last && *last >= from;
}
