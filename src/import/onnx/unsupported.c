/* unsupported.c -- what a model needs and is not there, collected over all of its nodes and reported in one sentence.
 * Nodes are counted by operator and reason; each counts once, however often its body is lowered. */
#include "import/onnx/state_priv.h"

struct onnx_missing {
  const char *op, *first, *reason; /* reason: NULL when the operator itself is unknown */
  uint32_t nodes;
};

td_status onnx_note_missing(onnx_import *im, onnx_record *record, const char *label, const char *reason) {
  if (record->is_missing) return TD_OK;
  record->is_missing = true;
  base_str domain = record->domain, op = record->op_type;
  const char *shown =
      domain.length ? base_arena_format(im->arena, "%.*s of %.*s", (int)op.length, op.at, (int)domain.length, domain.at)
                    : base_arena_format(im->arena, "%.*s-%lld", (int)op.length, op.at, (long long)record->impl.version);
  const char *key = base_arena_format(im->arena, "%s\x1f%s", shown, reason ? reason : "");
  const char *node = base_arena_text(im->arena, label), *kept = reason ? base_arena_text(im->arena, reason) : NULL;
  if (!shown || !key || !node || (reason && !kept)) return base_no_memory(im->err, "a node");
  const uint32_t *at = base_map_get(&im->missing_ops, base_str_of(key));
  if (at) {
    im->missing.at[*at].nodes++;
    return TD_OK;
  }
  onnx_missing *m = base_vec_push(im->arena, &im->missing);
  if (!m || !base_map_put(&im->missing_ops, im->arena, base_str_of(key), im->missing.count - 1, NULL))
    return base_no_memory(im->err, "a node");
  *m = (onnx_missing){.op = shown, .first = node, .reason = kept, .nodes = 1};
  return TD_OK;
}

td_status onnx_report_missing(onnx_import *im) {
  uint32_t count = im->missing.count, shown = 0;
  if (!count) return TD_OK;
  base_text text = {.allocator = base_arena_allocator(im->arena)};
  base_text_print(&text, count == 1 ? "1 operator is not supported: " : "%u operators are not supported: ", count);
  for (; shown < count && text.length < 1400; shown++) {
    const onnx_missing *m = &im->missing.at[shown];
    base_text_print(&text, "%s%s (%u %s, first %s%s%s)", shown ? ", " : "", m->op, m->nodes,
                    m->nodes == 1 ? "node" : "nodes", m->first, m->reason ? "; " : "", m->reason ? m->reason : "");
  }
  if (shown < count) base_text_print(&text, " and %u more", count - shown);
  td_status status = text.failed ? base_no_memory(im->err, "an error")
                                 : base_fail(im->err, TD_UNSUPPORTED, im->source->file, -1, "%s", text.at);
  base_text_free(&text);
  return status;
}
