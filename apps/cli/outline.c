/* outline.c -- the nodes of an ONNX file as they stand there, for models that do not load. */
#include <string.h>

#include "fmt/fmt.h"
#include "sys/sys.h"
#include "values.h"

enum { MOST_DEPTH = 32 };

typedef struct outline {
  const cli_name_vec *known; /* operators that can be imported */
  td_error *err;
} outline;

static void put(base_str text) { fwrite(text.at, 1, text.length, stdout); }

static bool is_known(const outline *o, base_str domain, base_str op) {
  const bool standard = domain.length == 0 || base_str_is(domain, "ai.onnx");
  for (uint32_t i = 0; i < o->known->count; i++) {
    base_str name = base_str_of(o->known->at[i]);
    if (standard ? base_str_equal(name, op)
                 : name.length == domain.length + 1 + op.length && memcmp(name.at, domain.at, domain.length) == 0 &&
                       name.at[domain.length] == '.' && memcmp(name.at + domain.length + 1, op.at, op.length) == 0)
      return true;
  }
  return false;
}

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
  printf(")  # \"");
  put(name);
  printf("\"%s\n", is_known(o, domain, op) ? "" : ": not supported");
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

td_status cli_print_outline(base_arena *arena, const char *path, td_error *err) {
  cli_name_vec known = {0};
  sys_mapping file;
  const outline o = {&known, err};
  TRY(cli_known_names(arena, "onnx_operators", &known, err));
  TRY(sys_file_map(path, &file, err));
  if (file.size >= 4 && memcmp(file.bytes, "PK\3\4", 4) == 0) return TD_OK; /* a zip archive is no ONNX file */
  for (fmt_wire w = fmt_wire_of(file.bytes, file.size); fmt_wire_more(&w);) {
    fmt_field f;
    fmt_wire graph;
    TRY(fmt_wire_next(&w, &f, err));
    if (f.number != 7) continue;
    TRY(fmt_field_message(&f, "the graph", &graph, err));
    TRY(print_graph(&o, graph, 0));
  }
  return TD_OK;
}
