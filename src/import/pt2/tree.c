/* tree.c -- the names of nested arguments and results, from the JSON text of a pytree: [1, {type, context,
 * children_spec}], whose leaves are the flat values in order. */
#include <string.h>

#include "import/pt2/pt2_priv.h"

enum { MAX_TREE_DEPTH = 32, MAX_LEAVES = 1 << 16 };

typedef struct walk {
  pt2 *p;
  const json_t *argument_names; /* of the positional arguments; NULL: outputs */
  bool for_outputs;
  BASE_VEC(const char *) leaves;
  bool failed;
} walk;

/* The keys of a dictionary or of a class that is one; NULL: the children have numbers. */
static json_t *keys_of(const json_t *spec, size_t children) {
  const char *text = pt2_text(spec, "context");
  json_t *keys = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
  bool fits = json_is_array(keys) && json_array_size(keys) == children && children > 0;
  for (size_t i = 0; fits && i < children; i++) fits = json_is_string(json_array_get(keys, i));
  if (fits) return keys;
  if (keys) json_decref(keys);
  return NULL;
}

/* The path of child `i`. */
static const char *child_path(walk *w, const char *path, const char *key, size_t i) {
  bool top = !*path;
  if (!w->for_outputs) return key ? pt2_format(w->p, "%s['%s']", path, key) : pt2_format(w->p, "%s[%zu]", path, i);
  if (key) return top ? pt2_format(w->p, "%s", key) : pt2_format(w->p, "%s.%s", path, key);
  return top ? pt2_format(w->p, "output_%zu", i) : pt2_format(w->p, "%s[%zu]", path, i);
}

static void walk_spec(walk *w, const json_t *spec, const char *path, int depth) {
  const json_t *children = json_object_get(spec, "children_spec"), *type = json_object_get(spec, "type");
  size_t count = json_array_size(children);
  if (!json_is_object(spec) || depth > MAX_TREE_DEPTH || w->leaves.count > MAX_LEAVES) w->failed = true;
  if (w->failed || pt2_failed(w->p)) return;
  if (!json_is_string(type) && count == 0) {
    const char **leaf = base_vec_push(w->p->arena, &w->leaves);
    if (leaf) *leaf = *path ? path : "output_0";
    else ir_build_take(&w->p->b, base_no_memory(w->p->b.err, "names"));
    return;
  }
  json_t *keys = keys_of(spec, count);
  for (size_t i = 0; i < count; i++) {
    const char *key = json_string_value(json_array_get(keys, i));
    walk_spec(w, json_array_get(children, i), child_path(w, path, key, i), depth + 1);
  }
  if (keys) json_decref(keys);
}

/* The arguments: a tuple of the positional ones, and a dictionary of the others. */
static void walk_arguments(walk *w, const json_t *spec, const char *root) {
  const json_t *parts = json_object_get(spec, "children_spec");
  const json_t *positional = json_object_get(json_array_get(parts, 0), "children_spec");
  if (json_array_size(parts) != 2) w->failed = true;
  for (size_t i = 0; i < json_array_size(positional) && !w->failed; i++) {
    const char *name = json_string_value(json_array_get(w->argument_names, i));
    const char *path = name ? pt2_format(w->p, "%s['%s']", root, name) : pt2_format(w->p, "%s[%zu]", root, i);
    walk_spec(w, json_array_get(positional, i), path, 0);
  }
  if (!w->failed) walk_spec(w, json_array_get(parts, 1), root, 0);
}

const char **pt2_leaves(pt2 *p, const char *spec, const json_t *argument_names, const char *root, uint32_t *count) {
  walk w = {.p = p, .argument_names = argument_names, .for_outputs = !root};
  json_t *text = spec ? json_loads(spec, 0, NULL) : NULL;
  const json_t *tree = json_array_get(text, 1);
  if (!tree) w.failed = true;
  else if (root) walk_arguments(&w, tree, root);
  else walk_spec(&w, tree, "", 0);
  if (text) json_decref(text);
  *count = w.failed || pt2_failed(p) ? 0 : w.leaves.count;
  return w.leaves.at;
}
