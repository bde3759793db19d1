/* outline.c -- a model as its file has it, for those that do not load: the nodes of ONNX and of torch.export, the
 * program of TorchScript. Which operators are to blame is what the error says. */
#include <ctype.h>
#include <string.h>

#include "fmt/fmt.h"
#include "sys/sys.h"
#include "outline.h"

enum { MOST_DEPTH = 32, MOST_NAME = 256 };

typedef struct outline {
  const char *why; /* the error's text: "2 operators are not supported: A (1 call, first x), B.C (2 calls ..." */
  base_arena *arena;
  td_error *err;
} outline;

static void put(base_str text) { fwrite(text.at, 1, text.length, stdout); }

/* Is `op` in the list of the error, and not the first node of its kind? */
static bool is_blamed(const outline *o, base_str op) {
  const char *end = o->why + strlen(o->why);
  for (const char *at = o->why; op.length && (at = memmem(at, (size_t)(end - at), op.at, op.length)); at++) {
    const bool begins = at >= o->why + 2 && (!memcmp(at - 2, ": ", 2) || !memcmp(at - 2, ", ", 2));
    if (begins && strchr(" -", at[op.length])) return true; /* a version follows, a domain or a number */
  }
  return false;
}

/* ---- ONNX ---- */

static td_status print_graph(const outline *o, fmt_wire w, int depth);

/* The graphs in an attribute: bodies of branches and loops. */
static td_status print_attribute(const outline *o, fmt_wire w, int depth) {
  while (fmt_wire_more(&w)) {
    fmt_field f;
    fmt_wire graph;
    TRY(fmt_wire_next(&w, &f, o->err));
    if (f.number != 6 && f.number != 11) continue;
    TRY(fmt_field_message(&f, "a graph", &graph, o->err));
    if (depth < MOST_DEPTH) TRY(print_graph(o, graph, depth + 1));
  }
  return TD_OK;
}

/* One pass over a node: field `number`, all its strings, with commas between. */
static td_status print_names(const outline *o, fmt_wire w, uint32_t number) {
  for (bool first = true; fmt_wire_more(&w);) {
    fmt_field f;
    base_str name;
    TRY(fmt_wire_next(&w, &f, o->err));
    if (f.number != number) continue;
    TRY(fmt_field_str(&f, "a name", &name, o->err));
    if (!first) printf(", ");
    put(name);
    first = false;
  }
  return TD_OK;
}

/* What stands behind a node. */
static void print_end(base_str name, bool blamed) {
  printf(")  # \"");
  put(name);
  printf("\"%s\n", blamed ? ": not supported" : "");
}

static td_status print_node(const outline *o, const fmt_wire node, int depth) {
  base_str name = {"", 0}, op = name, domain = name;
  for (fmt_wire w = node; fmt_wire_more(&w);) {
    fmt_field f;
    TRY(fmt_wire_next(&w, &f, o->err));
    base_str *to = f.number == 3 ? &name : f.number == 4 ? &op : f.number == 7 ? &domain : NULL;
    if (to) TRY(fmt_field_str(&f, "a name", to, o->err));
  }
  printf("%*s", 2 * depth, "");
  TRY(print_names(o, node, 2));
  printf(" = ");
  put(domain);
  printf("%s", domain.length ? "." : "");
  put(op);
  printf("(");
  TRY(print_names(o, node, 1));
  print_end(name, is_blamed(o, op));
  for (fmt_wire w = node; fmt_wire_more(&w);) {
    fmt_field f;
    fmt_wire attribute;
    TRY(fmt_wire_next(&w, &f, o->err));
    if (f.number != 5) continue;
    TRY(fmt_field_message(&f, "an attribute", &attribute, o->err));
    TRY(print_attribute(o, attribute, depth));
  }
  return TD_OK;
}

static td_status print_graph(const outline *o, fmt_wire w, int depth) {
  while (fmt_wire_more(&w)) {
    fmt_field f;
    fmt_wire node;
    TRY(fmt_wire_next(&w, &f, o->err));
    if (f.number != 1) continue;
    TRY(fmt_field_message(&f, "a node", &node, o->err));
    TRY(print_node(o, node, depth));
  }
  return TD_OK;
}

static td_status print_onnx(const outline *o, const sys_mapping *file) {
  for (fmt_wire w = fmt_wire_of(file->bytes, file->size); fmt_wire_more(&w);) {
    fmt_field f;
    fmt_wire graph;
    TRY(fmt_wire_next(&w, &f, o->err));
    if (f.number != 7) continue;
    TRY(fmt_field_message(&f, "the graph", &graph, o->err));
    TRY(print_graph(o, graph, 0));
  }
  return TD_OK;
}

/* ---- torch.export ---- */

/* "torch.ops.aten.add.Tensor" as errors have it: "aten::add.Tensor"; of a default overload the operator alone. */
static base_str operator_of(const char *target, char name[MOST_NAME]) {
  static const char ops[] = "torch.ops.", higher[] = "higher_order.", other[] = ".default";
  base_str text = base_str_of(target);
  if (base_str_starts(text, ops)) text = base_str_of(target + sizeof ops - 1);
  const bool region = base_str_starts(text, higher);
  if (region) text = base_str_of(text.at + sizeof higher - 1);
  if (base_str_ends(text, other)) text.length -= sizeof other - 1;
  const char *dot = region ? NULL : memchr(text.at, '.', text.length);
  const int space = dot ? (int)(dot - text.at) : 0;
  const int length = snprintf(name, MOST_NAME, "%.*s%s%.*s", space, text.at, dot ? "::" : "",
                              (int)text.length - space - (dot != NULL), text.at + space + (dot != NULL));
  return (base_str){name, length > 0 && length < MOST_NAME ? (size_t)length : 0};
}

/* A value of any form: names of what nodes give, numbers, lists of these. True: it names an operator to blame. */
static bool print_value(const outline *o, const fmt_json *v) {
  bool blamed = false;
  char op[MOST_NAME];
  const char *name = fmt_json_text(fmt_json_get(v, "name")), *text = name ? name : fmt_json_text(v);
  if (text) {
    printf("%s", text);
    return base_str_starts(base_str_of(text), "torch.ops.") && is_blamed(o, operator_of(text, op));
  }
  if (fmt_json_is(v, FMT_JSON_OBJECT)) { /* its form: its value */
    const fmt_json *inner = fmt_json_member(v, 0, &name);
    return print_value(o, inner && strcmp(name, "as_none") == 0 ? NULL : inner);
  }
  if (!v) printf("None");
  else if (fmt_json_is(v, FMT_JSON_INT)) printf("%lld", (long long)v->u.i);
  else if (fmt_json_is(v, FMT_JSON_FLOAT)) printf("%g", v->u.f);
  else if (!fmt_json_is(v, FMT_JSON_ARRAY)) printf("%s", fmt_json_is(v, FMT_JSON_FALSE) ? "False" : "True");
  else {
    printf("[");
    for (size_t i = 0; i < fmt_json_count(v); i++) {
      printf("%s", i ? ", " : "");
      blamed |= print_value(o, fmt_json_at(v, i));
    }
    printf("]");
  }
  return blamed;
}

static void print_exported(const outline *o, const fmt_json *graph, int depth) {
  const fmt_json *nodes = fmt_json_get(graph, "nodes");
  for (size_t n = 0; depth < MOST_DEPTH && n < fmt_json_count(nodes); n++) {
    const fmt_json *node = fmt_json_at(nodes, n), *to = fmt_json_get(node, "outputs");
    const fmt_json *from = fmt_json_get(node, "inputs");
    const char *target = fmt_json_text(fmt_json_get(node, "target")), *name = fmt_json_text(fmt_json_get(node, "name"));
    char text[MOST_NAME];
    const base_str op = operator_of(target ? target : "", text);
    bool blamed = is_blamed(o, op);
    printf("%*s", 2 * depth, "");
    for (size_t i = 0; i < fmt_json_count(to); i++) {
      printf("%s", i ? ", " : "");
      print_value(o, fmt_json_at(to, i));
    }
    printf(" = ");
    put(op);
    printf("(");
    for (size_t i = 0; i < fmt_json_count(from); i++) {
      printf("%s", i ? ", " : "");
      blamed |= print_value(o, fmt_json_get(fmt_json_at(from, i), "arg"));
    }
    print_end(base_str_of(name ? name : ""), blamed);
    for (size_t i = 0; i < fmt_json_count(from); i++) /* bodies */
      print_exported(o, fmt_json_get(fmt_json_get(fmt_json_get(fmt_json_at(from, i), "arg"), "as_graph"), "graph"),
                     depth + 1);
  }
}

/* ---- TorchScript ---- */

/* Prints a line; behind it, the operators in it that are to blame: torch.add is aten::add, ops.vision.nms vision::nms.
 */
static void print_line(const outline *o, base_str line) {
  const char *end = line.at + line.length;
  put(line);
  for (const char *at = line.at, *stop; at < end; at = stop) {
    char name[MOST_NAME];
    for (stop = at; stop < end && (isalnum((unsigned char)*stop) || *stop == '_' || *stop == '.'); stop++) continue;
    const base_str path = {at, (size_t)(stop - at)};
    const size_t skip = base_str_starts(path, "ops.") ? 4 : base_str_starts(path, "torch.") ? 6 : 0;
    const int length =
        snprintf(name, sizeof name, "%s%.*s", skip == 6 ? "aten." : "", (int)(path.length - skip), at + skip);
    char op[MOST_NAME];
    if (skip && length < MOST_NAME && is_blamed(o, operator_of(name, op))) printf("  # %s: not supported", op);
    stop += stop == at;
  }
  printf("\n");
}

static void print_program(const outline *o, base_str text) {
  for (const char *at = text.at, *end = at + text.length, *stop; at < end; at = stop + 1) {
    stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) stop = end;
    print_line(o, (base_str){at, (size_t)(stop - at)});
  }
}

static td_status print_archive(const outline *o, const sys_mapping *file) {
  fmt_zip zip;
  TRY(fmt_zip_open(o->arena, file->bytes, file->size, &zip, o->err));
  for (uint32_t i = 0; i < zip.count; i++) {
    const base_str name = zip.entries[i].name;
    const bool program = base_str_ends(name, ".py");
    const uint8_t *data;
    const fmt_json *root;
    if (!program && !base_str_ends(name, "models/model.json") && !base_str_is(name, "serialized_exported_program.json"))
      continue;
    TRY(fmt_zip_read(o->arena, &zip, &zip.entries[i], &data, o->err));
    if (program) {
      print_program(o, (base_str){(const char *)data, (size_t)zip.entries[i].bytes});
      continue;
    }
    TRY(fmt_json_read(o->arena, "the program", data, (size_t)zip.entries[i].bytes, &root, o->err));
    print_exported(o, fmt_json_get(fmt_json_get(root, "graph_module"), "graph"), 0);
  }
  return TD_OK;
}

td_status cli_print_outline(base_arena *arena, const char *path, const char *why, td_error *err) {
  sys_mapping file;
  const outline o = {why, arena, err};
  TRY(sys_file_map(path, &file, err));
  return fmt_zip_sniff(file.bytes, file.size) ? print_archive(&o, &file) : print_onnx(&o, &file);
}
