/* state_priv.h -- the state of an import, shared by the files that walk the model. Lowerings see onnx_priv.h only. */
#ifndef IMPORT_ONNX_STATE_PRIV_H
#define IMPORT_ONNX_STATE_PRIV_H
#include "import/onnx/model_priv.h"

typedef struct onnx_missing onnx_missing;

typedef struct onnx_import {
  const import_source *source;
  ir_graph *graph;
  base_arena *arena; /* records and scopes: freed when the import ends */
  onnx_model model;
  base_map functions;         /* (domain, name, overload) -> position in model.functions */
  base_map value_names;       /* of `graph` -> next number to tell a second one apart by, or ONNX_NAME_FREE */
  base_map files;             /* location of an external file -> position in graph->segments */
  const onnx_lowering **rows; /* of all families, sorted by domain, name, since */
  uint32_t row_count;
  BASE_VEC(onnx_missing) missing; /* see unsupported.c */
  base_map missing_ops;
  size_t memory_limit;
  td_error *err; /* never NULL */
} onnx_import;

/* What a name can mean instead of a value: a caller left it out; its node did not give it; it needs something that is
 * not supported, which has been noted. */
#define ONNX_ABSENT 0u
#define ONNX_NOT_MADE UINT32_MAX
#define ONNX_LOST (UINT32_MAX - 1)
#define ONNX_NAME_FREE UINT32_MAX

typedef struct onnx_scope onnx_scope;

/* An attribute of a node after references to attributes of the function have been followed. */
typedef struct onnx_bound {
  base_str name;
  onnx_attr *attr;
  const onnx_scope *scope; /* where it was written: what the names in a graph attribute mean */
} onnx_bound;

/* The names that a graph or a function body defines. */
struct onnx_scope {
  onnx_import *im;
  const onnx_scope *parent; /* the graph around; NULL for the model's graph and for function bodies */
  base_map names;           /* -> value id, ONNX_ABSENT or ONNX_NOT_MADE */
  ir_block block;
  const char *prefix;      /* of names: "" or "call/" */
  const char *path;        /* of names that are made up: also tells the nodes of subgraphs apart */
  const onnx_bound *bound; /* attributes of the call that a function body is lowered for */
  uint32_t bound_count;
  uint32_t depth;
};

struct onnx_node {
  onnx_import *im;
  onnx_scope *scope;
  onnx_record *record;
  const char *label;  /* name, or a made-up one */
  const char *origin; /* "label (OpType)" */
  const char *op_type;
  ir_value *in, *out; /* out: of all outputs, named or not */
  uint32_t in_count, out_count;
  bool *made; /* outputs that are set */
  const onnx_bound *attrs;
  bool *attr_read, *in_read; /* the lowering has asked for it */
  uint32_t attr_count;
  ir_build b;     /* its block is the one that the node is lowered into */
  ir_frame frame; /* of `b` */
  bool is_lost;   /* it failed because something it needs is not supported, which has been noted */
};

/* resolve.c: fills the impl of every node that can be reached; fails naming all that have none. */
td_status onnx_resolve(onnx_import *im);
const char *onnx_cstr(onnx_import *im, base_str s); /* NUL-terminated, as long as the import; NULL: out of memory */

/* unsupported.c: notes a node that nothing lowers, or that a lowering refuses for `reason`; fails naming all noted. */
td_status onnx_note_missing(onnx_import *im, onnx_record *record, const char *label, const char *reason);
td_status onnx_report_missing(onnx_import *im);

/* unread.c */
bool onnx_attr_harmless(const char *op, base_str attr); /* may be passed over */
void onnx_refuse_unread(onnx_node *n);                  /* fails where the lowering left something else unread */

/* node.c: every input, read. As long as the node. */
const ir_value *onnx_all_in(onnx_node *n);

/* sort.c: orders a graph's nodes; fails on cycles and on names that are defined twice. Comes after initializers and
 * inputs are in the scope. */
td_status onnx_sort(const onnx_scope *scope, onnx_graph *graph);

/* scope.c */
td_status onnx_define(onnx_scope *scope, base_str name, ir_value value);
/* The same; it hides what the name means in the scopes around. */
td_status onnx_define_here(onnx_scope *scope, base_str name, ir_value value);
td_status onnx_defined_twice(onnx_import *im, base_str name); /* the error of that */
/* The id of what `name` means here; NULL when it means nothing. */
const uint32_t *onnx_lookup(const onnx_scope *scope, base_str name);
/* Gives `value` its ONNX name unless it has one; a name that is taken gets a number. */
td_status onnx_name_value(onnx_scope *scope, base_str name, ir_value value);
/* Frees the names of the values from `first` on: a loop's body is lowered again. */
void onnx_forget_names(onnx_import *im, uint32_t first);
td_status onnx_check_memory(onnx_import *im);

/* tensor.c: the constant of a tensor, made once. */
td_status onnx_tensor_value(onnx_import *im, onnx_tensor *tensor, ir_value *value);
/* type.c: a TypeProto; open sizes become symbols. `name` is the value's. */
td_status onnx_read_type(onnx_import *im, fmt_wire type_proto, base_str name, ir_type *type);

/* lower.c */
td_status onnx_define_initializers(onnx_scope *scope, onnx_graph *graph);
td_status onnx_lower_graph(onnx_scope *scope, onnx_graph *graph); /* its nodes; all else is defined already */
td_status onnx_lower_alias(onnx_node *n);
/* Lowers an attribute graph of `n` into `block`; its inputs mean `params` (as many as it has), its outputs go to
 * `results`. */
td_status onnx_lower_body(onnx_node *n, const onnx_bound *body, ir_block block, const ir_value *params, uint32_t count,
                          ir_value *results);
td_status onnx_inline(onnx_node *n); /* function.c */

/* attr.c */
const onnx_bound *onnx_find_bound(const onnx_node *n, const char *name);
/* The graph attribute `name`; fails when there is none. */
const onnx_bound *onnx_attr_graph(onnx_node *n, const char *name);
td_status onnx_bind_attrs(onnx_import *im, const onnx_scope *scope, const onnx_record *record, onnx_bound **bound,
                          uint32_t *count);
/* The list of strings `name` as slices of the file; NULL and 0 when it is absent. */
td_status onnx_attr_slices(onnx_node *n, const char *name, base_str **slices, uint32_t *count);
/* Takes a status of ir or base into the sticky one. */
void onnx_take(onnx_node *n, td_status status);
#endif
