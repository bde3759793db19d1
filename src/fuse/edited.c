/* edited.c -- loops as a person may have changed them in the text that fuse_print made. The text's first line has its
 * checksum: as long as nobody has changed it, the graph's own loops count, which may have been changed instead. */
#include "base/digest.h"
#include "fuse/fuse_priv.h"
#include "kernels/loops/loops.h"

#include <stdio.h>
#include <string.h>

static const char mark[] = "# as written: ";

void fuse_mark(const base_text *loops, base_text *to) {
  base_text_print(to, "%s%016llx\n", mark, (unsigned long long)base_checksum(loops->at, loops->length));
  base_text_add(to, loops->at, loops->length);
}

static bool is_as_written(const char *text, size_t length) {
  char head[sizeof mark + 20];
  const char *line = memchr(text, '\n', length);
  if (!line) return false;
  const size_t rest = length - (size_t)(line + 1 - text);
  const int count = snprintf(head, sizeof head, "%s%016llx", mark, (unsigned long long)base_checksum(line + 1, rest));
  return line - text == count && memcmp(text, head, (size_t)count) == 0;
}

typedef struct edited {
  ir_graph *graph;
  base_arena *scratch;
  const char *text, *end, *file;
  td_error *err;
} edited;

static const char *find(const char *from, const char *end, const char *word) {
  return from && from < end ? memmem(from, (size_t)(end - from), word, strlen(word)) : NULL;
}

/* The program of loop `number` among the text; NULL: it is not there. */
static td_status find_program(const edited *e, uint32_t number, base_program *p, bool *found) {
  char head[32];
  snprintf(head, sizeof head, "# loop %u:", number);
  const char *at = find(e->text, e->end, head), *next = at ? find(at + 1, e->end, "\n# loop ") : NULL;
  const char *end = next ? next : e->end, *open = find(at, end, "\nfused "), *close = find(open, end, "\n}");
  *found = at != NULL;
  if (!at) return TD_OK;
  if (!close)
    return base_fail(e->err, TD_BAD_FILE, e->file, at - e->text, "loop %u has no 'fused ... { ... }'", number);
  td_error why;
  if (loop_parse(open, (size_t)(close + 2 - open), p, &why) == TD_OK) return TD_OK;
  return base_fail(e->err, TD_BAD_FILE, e->file, open - e->text + why.offset, "loop %u: %s", number, why.text);
}

/* A node that computes `p` in the place of `node`. */
static td_status put(const edited *e, ir_node id, uint32_t number, const base_program *p) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  const ir_block block = node->parent;
  uint32_t from_count;
  const int64_t *from = base_attr_ints(node->attrs, KERN_FUSED_FROM, &from_count);
  int64_t *words = base_new(e->scratch, int64_t, base_program_size(p));
  ir_node made;
  if (!words) return base_no_memory(e->err, "a fused loop");
  base_program_write(p, words);
  const base_arg args[] = {ARG_INTS("program", words, base_program_size(p)), ARG_INTS("from", from, from_count)};
  const ir_new_node spec = {.op = node->op,
                            .in = node->in,
                            .in_count = node->in_count,
                            .out_count = node->out_count,
                            .args = args,
                            .arg_count = from_count == p->count ? 2 : 1, /* which node an operation came from */
                            .origins = node->origins,
                            .before = id};
  if (p->in_count != node->in_count || p->out_count != node->out_count)
    return base_fail(e->err, TD_BAD_FILE, e->file, -1, "loop %u takes %u operands and gives %u results, not %u and %u",
                     number, node->in_count, node->out_count, p->in_count, p->out_count);
  TRY(ir_add_node(e->graph, block, &spec, &made, NULL, e->err));
  node = ir_node_of(e->graph, id);
  for (uint32_t i = 0; i < node->out_count; i++) {
    const ir_value with = ir_node_of(e->graph, made)->out[i];
    if (!ir_type_equal(ir_type_of(e->graph, with), ir_type_of(e->graph, node->out[i])))
      return base_fail(e->err, TD_BAD_FILE, e->file, -1, "result %u of loop %u has another type than before", i,
                       number);
    ir_value_of(e->graph, with)->name = ir_value_of(e->graph, node->out[i])->name;
    ir_value_of(e->graph, node->out[i])->name = NULL;
    TRY(ir_replace_value(e->graph, node->out[i], with, e->err));
  }
  ir_remove_node(e->graph, id);
  return TD_OK;
}

static td_status visit(const edited *e, ir_node id, uint32_t number) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  base_program now, wanted;
  bool found;
  uint32_t count;
  const int64_t *words = base_attr_ints(node->attrs, KERN_FUSED_PROGRAM, &count);
  TRY(find_program(e, number, &wanted, &found));
  if (!found || base_program_read(words, count, &now) || base_program_equal(&now, &wanted)) return TD_OK;
  return put(e, id, number, &wanted);
}

td_status fuse_take_edited(ir_graph *graph, const char *text, size_t length, const char *file, td_error *err) {
  if (is_as_written(text, length)) return TD_OK;
  const edited e = {graph, base_arena_new_brief(base_arena_allocator(graph->arena)), text, text + length, file, err};
  td_status status = e.scratch ? TD_OK : base_no_memory(err, "fused loops");
  uint32_t number = 0;
  const uint32_t blocks = graph->blocks.count;
  for (uint32_t b = 0; b < blocks && status == TD_OK; b++) {
    const uint32_t nodes = ir_block_of(graph, (ir_block){b})->nodes.count;
    for (uint32_t i = 0; i < nodes && status == TD_OK; i++) {
      const ir_node id = ir_block_of(graph, (ir_block){b})->nodes.at[i];
      const ir_node_def *node = ir_node_of(graph, id);
      if (node->op && node->op->flags & IR_OP_LOOP) status = visit(&e, id, number++);
    }
  }
  ir_settle(graph);
  base_arena_free(e.scratch);
  return status;
}
