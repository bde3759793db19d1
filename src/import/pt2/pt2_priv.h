/* pt2_priv.h -- the state of an import of a torch.export program, shared by the files that walk it. The document is
 * JSON (fmt/json.h); what is missing where nothing depends on it takes a default, what has the wrong form fails. Errors
 * go through the builder's sticky one, so that the walk reads as straight code. */
#ifndef IMPORT_PT2_PT2_PRIV_H
#define IMPORT_PT2_PT2_PRIV_H
#include "fmt/fmt.h"
#include "import/aten/aten.h"
#include "import/import.h"

/* What a name of the program stands for. Parameters and buffers become constants when somebody asks for them first. */
typedef struct pt2_entry {
  aten_value value;
  const char *stored; /* the key of a tensor in the archive that is not made yet, or NULL */
  bool constant;      /* it is among the constants rather than the weights */
  bool is_dense;      /* what is stored stands in the order of its sizes */
  bool is_complex;
  ir_value made;  /* the constant that it became, or none */
  ir_value state; /* the state of the session that it is, or none */
  uint32_t spec;  /* its position among the input specs */
} pt2_entry;

/* The names of one graph: the program's own, or that of a region. Regions see nothing but their operands. */
typedef struct pt2_scope {
  base_map names; /* -> position in entries */
  BASE_VEC(pt2_entry) entries;
  uint32_t depth;
} pt2_scope;

/* Where tensors come from, whatever the container. */
typedef struct pt2_store {
  fmt_state_dict *dict; /* torch.save, opened when a tensor is asked for */
  const uint8_t *bytes; /* of that torch.save, or NULL */
  size_t size;
  const char *folder;     /* of raw storages, or NULL */
  const fmt_json *config; /* that describes them */
} pt2_store;

/* A tensor that is a constant of the graph already: tied weights are stored once. */
typedef struct pt2_shared {
  base_tensor tensor;
  ir_value value;
  uint32_t next; /* another with its bytes: 1 + its position; 0: there is none */
} pt2_shared;

typedef struct pt2 {
  const import_source *source;
  base_arena *arena; /* of the import: freed when it ends */
  ir_build b;
  aten *a;
  fmt_zip zip;
  base_str folder; /* of all members, with its slash; empty in the flat containers */
  bool is_zip;
  const fmt_json *root; /* the program */
  pt2_store weights, constants;
  BASE_VEC(pt2_shared) shared;
  base_map shared_at; /* the bytes' address -> 1 + position of the last one there */
  base_map *written;  /* keys of the buffers that the program writes; they become state */
  base_arena *written_arena;
  bool begin_anew;                    /* a buffer was written that was taken for a constant: it is in `written` now */
  BASE_VEC(const char *) input_paths; /* of the flat arguments, as guards write them: "L['x'][0]" */
  size_t memory_limit;
} pt2;

/* ---- json.c ---- */

/* Texts of the document live as long as the import; these give NULL where there is none. */
const char *pt2_text(const fmt_json *object, const char *key);
/* The one key of a union, and what it holds; NULL: it is none. */
const fmt_json *pt2_union(const fmt_json *value, const char **tag);
/* A number of an enum or a size; false: it is none. */
bool pt2_int(const fmt_json *value, int64_t *number);
/* A float, or "Infinity", "-Infinity", "NaN". */
bool pt2_float(const fmt_json *value, double *number);
#define pt2_fail(p, ...) ir_build_fail(&(p)->b, TD_BAD_FILE, __VA_ARGS__)
static inline bool pt2_failed(const pt2 *p) { return ir_build_failed(&p->b); }
void *pt2_alloc(pt2 *p, size_t bytes); /* of the import; zeroed; NULL: failed */
/* A copy in the graph's arena; "" after a failure. */
const char *pt2_format(pt2 *p, const char *format, ...) BASE_PRINTF(2, 3);
/* c10's number of a ScalarType of the document; fails on unknown ones. */
int64_t pt2_scalar_type(pt2 *p, const fmt_json *value);
void pt2_parse_json(pt2 *p, const char *what, const uint8_t *bytes, size_t size, const fmt_json **root);

/* ---- archive.c ---- */

/* Finds the program and what holds its tensors; fills p->root. */
void pt2_open(pt2 *p);
void pt2_close(pt2 *p);
/* The constant of the tensor `name`. */
ir_value pt2_tensor(pt2 *p, const char *name, bool constant);

/* ---- expr.c ---- */

/* A SymInt of the document as a size. */
base_dim pt2_size(pt2 *p, const fmt_json *sym_int);
/* The type that TensorMeta says; complex numbers have a last axis of 2. */
ir_type pt2_type(pt2 *p, const fmt_json *meta);
bool pt2_is_complex(pt2 *p, const fmt_json *meta);
bool pt2_is_dense(const fmt_json *meta);
/* Range constraints and guards become conditions of the graph. */
void pt2_add_guards(pt2 *p);

/* ---- tree.c ---- */

/* A name for each leaf of a pytree's JSON text: paths as Python writes them behind `root` ("L"), with the names of
 * positional arguments, or (root NULL) names of outputs. *count 0: the text says nothing that can be used. */
const char **pt2_leaves(pt2 *p, const char *spec, const fmt_json *argument_names, const char *root, uint32_t *count);

/* ---- node.c ---- */

void pt2_bind(pt2 *p, pt2_scope *s, const char *name, aten_value value);
/* What `name` means here; fails when nothing. */
aten_value pt2_lookup(pt2 *p, pt2_scope *s, const char *name);
aten_value pt2_argument(pt2 *p, pt2_scope *s, const fmt_json *argument);
/* Gives the node's outputs the values of `result`: a tuple where there are several. */
void pt2_bind_outputs(pt2 *p, pt2_scope *s, const fmt_json *node, aten_value result);
/* Runs the nodes of a graph whose inputs are bound. */
void pt2_run_nodes(pt2 *p, pt2_scope *s, const fmt_json *graph);
/* Notes every operator that is not there, in this graph and those inside. */
void pt2_note_missing(pt2 *p, const fmt_json *graph, uint32_t depth);
/* with_effects(token, operator, operands) -> token, results */
void pt2_run_with_effects(pt2 *p, pt2_scope *s, const fmt_json *node);
enum { PT2_MAX_DEPTH = 24 };

/* ---- control.c ---- */

/* The higher-order operator `name` ("cond"); NULL: there is none. */
typedef void (*pt2_region_fn)(pt2 *p, pt2_scope *s, const fmt_json *node);
pt2_region_fn pt2_find_region(const char *name);

/* ---- program.c ---- */

void pt2_run(pt2 *p);
#endif
