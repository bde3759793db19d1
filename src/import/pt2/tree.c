/* tree.c -- the names of nested arguments and results, from the JSON text of a pytree: [1, {type, context,
 * children_spec}], whose leaves are the flat values in order. */
#include <string.h>

#include "import/pt2/pt2_priv.h"

enum { MAX_TREE_DEPTH = 32, MAX_LEAVES = 1 << 16 };

typedef struct walk {
  pt2 *p;
  const fmt_json *argument_names; /* of the positional arguments; NULL: outputs */
  bool for_outputs;
  BASE_VEC(const char *) leaves;
  bool failed;
} walk;

/* A document inside a text; NULL: it is none. */
static const fmt_json *read_text(pt2 *p, const char *text) {
  const fmt_json *value = NULL;
  td_error none;
  if (!text || pt2_failed(p)) return NULL;
  if (fmt_json_read(p->arena, "a tree", text, strlen(text), &value, &none) == TD_NO_RESOURCE)
    ir_build_take(&p->b, base_no_memory(p->b.err, "names"));
  return value;
}

/* The keys of a dictionary or of a class that is one; NULL: the children have numbers. */
static const fmt_json *keys_of(pt2 *p, const fmt_json *spec, size_t children) {
  const char *text = pt2_text(spec, "context");
  const fmt_json *keys = read_text(p, text);
  bool fits = fmt_json_is(keys, FMT_JSON_ARRAY) && fmt_json_count(keys) == children && children > 0;
  for (size_t i = 0; fits && i < children; i++) fits = fmt_json_is(fmt_json_at(keys, i), FMT_JSON_TEXT);
  return fits ? keys : NULL;
}

/* The path of child `i`. */
static const char *child_path(walk *w, const char *path, const char *key, size_t i) {
  bool top = !*path;
  if (!w->for_outputs) return key ? pt2_format(w->p, "%s['%s']", path, key) : pt2_format(w->p, "%s[%zu]", path, i);
  if (key) return top ? pt2_format(w->p, "%s", key) : pt2_format(w->p, "%s.%s", path, key);
  return top ? pt2_format(w->p, "output_%zu", i) : pt2_format(w->p, "%s[%zu]", path, i);
}

static void walk_spec(walk *w, const fmt_json *spec, const char *path, int depth) {
  const fmt_json *children = fmt_json_get(spec, "children_spec"), *type = fmt_json_get(spec, "type");
  size_t count = fmt_json_count(children);
  if (!fmt_json_is(spec, FMT_JSON_OBJECT) || depth > MAX_TREE_DEPTH || w->leaves.count > MAX_LEAVES) w->failed = true;
  if (w->failed || pt2_failed(w->p)) return;
  if (!fmt_json_is(type, FMT_JSON_TEXT) && count == 0) {
    const char **leaf = base_vec_push(w->p->arena, &w->leaves);
    if (leaf) *leaf = *path ? path : "output_0";
    else ir_build_take(&w->p->b, base_no_memory(w->p->b.err, "names"));
    return;
  }
  const fmt_json *keys = keys_of(w->p, spec, count);
  for (size_t i = 0; i < count; i++) {
    const char *key = fmt_json_text(fmt_json_at(keys, i));
    walk_spec(w, fmt_json_at(children, i), child_path(w, path, key, i), depth + 1);
  }
}

/* The arguments: a tuple of the positional ones, and a dictionary of the others. */
static void walk_arguments(walk *w, const fmt_json *spec, const char *root) {
  const fmt_json *parts = fmt_json_get(spec, "children_spec");
  const fmt_json *positional = fmt_json_get(fmt_json_at(parts, 0), "children_spec");
  if (fmt_json_count(parts) != 2) w->failed = true;
  for (size_t i = 0; i < fmt_json_count(positional) && !w->failed; i++) {
    const char *name = fmt_json_text(fmt_json_at(w->argument_names, i));
    const char *path = name ? pt2_format(w->p, "%s['%s']", root, name) : pt2_format(w->p, "%s[%zu]", root, i);
    walk_spec(w, fmt_json_at(positional, i), path, 0);
  }
  if (!w->failed) walk_spec(w, fmt_json_at(parts, 1), root, 0);
}

const char **pt2_leaves(pt2 *p, const char *spec, const fmt_json *argument_names, const char *root, uint32_t *count) {
  walk w = {.p = p, .argument_names = argument_names, .for_outputs = !root};
  const fmt_json *tree = fmt_json_at(read_text(p, spec), 1);
  if (!tree) w.failed = true;
  else if (root) walk_arguments(&w, tree, root);
  else walk_spec(&w, tree, "", 0);
  *count = w.failed || pt2_failed(p) ? 0 : w.leaves.count;
  return w.leaves.at;
}
