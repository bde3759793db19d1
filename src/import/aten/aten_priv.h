/* aten_priv.h -- what the files of this layer share. A lowering is a function of one call: its arguments stand in the
 * order of the schema, defaults filled in, converted to the parameters' types. */
#ifndef IMPORT_ATEN_ATEN_PRIV_H
#define IMPORT_ATEN_ATEN_PRIV_H
#include "import/aten/aten.h"

/* ---- schemas (schema.c) ------------------------------------------------------------------------------------------ */

typedef enum aten_atom {
  ATEN_ATOM_TENSOR,
  ATEN_ATOM_INT, /* SymInt, ScalarType, Layout, MemoryFormat, QScheme too */
  ATEN_ATOM_FLOAT,
  ATEN_ATOM_BOOL,
  ATEN_ATOM_COMPLEX,
  ATEN_ATOM_SCALAR,
  ATEN_ATOM_STR,
  ATEN_ATOM_DEVICE,
  ATEN_ATOM_DICT,
  ATEN_ATOM_OBJECT, /* __torch__.torch.classes... */
  ATEN_ATOM_FUTURE,
  ATEN_ATOM_NEVER, /* Generator, Storage ...: only None */
  ATEN_ATOM_ANY    /* t, Any */
} aten_atom;

typedef struct aten_param {
  base_str name;
  uint8_t atom, key; /* aten_atom; key: of a dict */
  bool is_list, is_nested, is_optional, item_optional, keyword_only, is_written, has_default;
  int64_t length; /* N of int[N]: a single number stands for N of them; 0: none */
  aten_value fallback;
} aten_param;

typedef struct aten_schema {
  base_str overload; /* "" for the unnamed one */
  aten_param *params;
  uint32_t count, result_count;
  bool is_variadic; /* "..." */
} aten_schema;

typedef struct aten_call_state aten_args;
typedef aten_value (*aten_lower_fn)(aten_args *c);

/* What else is to know of a row. */
enum {
  ATEN_KEEPS_QUANT = 4, /* of a quantised tensor: the result has its scale and zero point */
  ATEN_TURNS = 8,       /* in place it changes how the operand shows its memory, not what is in it */
  /* Of complex numbers: done to real parts and to imaginary ones; or a sum of products, with one factor of each
   * complex operand. */
  ATEN_PARTS = 16,
  ATEN_PRODUCT = 32,
  ATEN_PROMOTES = 64, /* its tensors meet in one type before it is lowered, as those of a sum do */
  ATEN_AS_FIRST = 128 /* its tensors take the type of the first */
};
typedef struct aten_row {
  aten_lower_fn lower; /* NULL: known, so that resolution is PyTorch's, but not supported */
  const char *data;    /* for lowerings that several rows share: the graph operator's name or a variant */
} aten_row;
extern const aten_row aten_rows[];
extern const uint8_t aten_forms[]; /* by row; apart, since a byte among pointers takes the room of one */
extern const uint32_t aten_row_count;
/* The schema of each row: "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor". NULL: failed. */
const char *const *aten_unpack_lines(base_arena *arena, td_error *err);

/* The promise of a list of the graph that `item` joins; `promise`: so far. Fails where the two do not meet. */
const aten_promise *aten_promise_with(aten *a, const aten_promise *promise, const aten_value *item);

/* The parsed schema, in `arena`. False: a syntax error, or out of memory. */
bool aten_parse_schema(base_arena *arena, const char *line, aten_schema *schema);
/* Name of a schema line ("aten::add") and of its overload. */
base_str aten_schema_name(const char *line);

/* ---- the import -------------------------------------------------------------------------------------------------- */

typedef struct aten_entry aten_entry; /* of the journal */
typedef struct aten_missing aten_missing;

/* Rows of a packed sequence, and [time, batch, ...] of which they are those that are there. */
typedef struct aten_packed {
  ir_value data, padded, lengths;
  uint32_t rollbacks; /* the values may be gone after another one */
} aten_packed;

struct aten {
  ir_build *b;
  base_arena *arena;
  int64_t version;
  aten_open_squeeze squeeze;
  bool kept_open;           /* aten_has_open_squeeze */
  const char *const *lines; /* by row: its schema */
  base_map names;           /* -> first row of that name */
  aten_schema **schemas;    /* by row; NULL: not parsed yet */
  uint32_t clock;           /* of births and saves in the journal: counts marks and their ends */
  uint32_t marks;           /* that are open */
  uint32_t versions;        /* of cells, counted together */
  uint32_t rollbacks;       /* what was read before one may be gone */
  BASE_VEC(aten_entry) journal;
  BASE_VEC(aten_missing) missing;
  base_map missing_ops;
  BASE_VEC(aten_packed) packed;
};

void *aten_alloc(aten *a, size_t bytes); /* zeroed, in the import's arena; NULL and failed when out of memory */
const aten_schema *aten_schema_of(aten *a, uint32_t row);

/* resolve.c: the first row among [first, first + count) that takes the request's arguments; -1: none. Fills `bound` (as
 * many as the row's parameters have; the caller gives room for ATEN_MAX_PARAMS). */
enum { ATEN_MAX_PARAMS = 40 };
typedef enum aten_form {
  ATEN_FORM_PLAIN,
  ATEN_FORM_IN_PLACE, /* NAME_ : the same, written into the operand that aten_written_param names, which comes first */
  ATEN_FORM_OUT       /* with keywords `out`, `values`, ...: the same, written into these */
} aten_form;
typedef struct aten_request {
  uint32_t first, count;
  const char *overload; /* NULL: any */
  aten_form form;
  uint32_t out_count; /* of OUT: how many results there are */
  const aten_value *args;
  uint32_t arg_count;
  const aten_keyword *keywords;
  uint32_t keyword_count;
} aten_request;
int64_t aten_resolve(aten *a, const aten_request *r, aten_value *bound);
/* The parameter that an in-place form of a row of one result writes: the first, or, where that is no tensor, "self"
 * (polygamma has its order in front). -1: there is no such form. */
int64_t aten_written_param(const aten_schema *s);
bool aten_has_param(const aten_schema *s, base_str name);

/* ---- a call ------------------------------------------------------------------------------------------------------ */

struct aten_call_state {
  aten *a;
  ir_build *b;
  const aten_row *row;
  const aten_schema *schema;
  const char *name; /* as called */
  int64_t version;  /* of the file's operators; 0, today's, in calls that a lowering makes */
  const aten_value *args;
  const aten_value *extra; /* of variadic schemas */
  uint32_t extra_count;
  bool all_dense; /* every tensor operand is known to be contiguous: so are results unless said otherwise */
};

/* Position of a parameter by its name; -1: the overload has none. */
int64_t aten_position(const aten_args *c, const char *name);
/* Arguments by position in the schema. */
bool aten_has(const aten_args *c, uint32_t i);  /* not None */
ir_value aten_in(aten_args *c, uint32_t i);     /* a tensor, read; none where it is None */
int64_t aten_get_int(aten_args *c, uint32_t i); /* fails where only running can tell */
bool aten_get_bool(aten_args *c, uint32_t i);
double aten_get_float(aten_args *c, uint32_t i);
const char *aten_get_str(aten_args *c, uint32_t i);                 /* "" where it is None */
ir_value aten_get_number(aten_args *c, uint32_t i, td_dtype dtype); /* a Scalar, int, ... as rank 0 of `dtype` */
ir_value aten_int_value(aten_args *c, uint32_t i);                  /* an int as i64 of rank 0 */
uint32_t aten_list_count(aten_args *c, uint32_t i);                 /* of a list known at import; None: 0 */
const aten_value *aten_items(aten_args *c, uint32_t i);
/* A list of ints that are all known; None: NULL and 0. */
const int64_t *aten_get_ints(aten_args *c, uint32_t i, uint32_t *count);
bool aten_known_list(const aten_value *v); /* a list whose items are all known numbers */
/* Arguments 1, 2 and 3 as Python's slice of `n` things: how many, the first, and the step. */
int64_t aten_slice_bounds(aten_args *c, int64_t n, int64_t *from, int64_t *step);
/* A list of ints as an i64 vector. */
ir_value aten_ints_value(aten_args *c, uint32_t i);
/* The tensors of a list, read. */
ir_value *aten_get_tensors(aten_args *c, uint32_t i, uint32_t *count);
/* Argument i as a dtype; `fallback` where it is None. */
td_dtype aten_get_dtype(aten_args *c, uint32_t i, td_dtype fallback);
td_dtype aten_dtype_in(aten_args *c, uint32_t i);                          /* of a tensor operand */
int32_t aten_rank_in(aten_args *c, uint32_t i);                            /* fails where unknown */
void aten_refuse(aten_args *c, const char *format, ...) BASE_PRINTF(2, 3); /* TD_UNSUPPORTED */

/* Results: new cells. */
aten_value aten_ret(aten_args *c, ir_value v);
aten_value aten_ret_strided(aten_args *c, ir_value v); /* not known to be contiguous */
aten_value aten_ret_many(aten_args *c, const ir_value *v, uint32_t count);

/* known.c: what `v` holds, where that is a few numbers computed from constants alone. In the import's arena. */
bool aten_evaluate(aten *a, ir_value v, base_tensor *tensor);

/* ---- building ---------------------------------------------------------------------------------------------------- */

ir_value aten_number_value(aten *a, const aten_value *v, td_dtype dtype); /* rank 0 */
/* A bool: is `item` equal to one of `items`? Numbers that only running knows are compared when the model runs. */
aten_value aten_is_among(aten *a, const aten_list *items, const aten_value *item);
/* Items (ints known or not) as an i64 vector. */
ir_value aten_vector(aten *a, const aten_value *items, uint32_t count);
/* Size `dim` (may be negative) of `v`: known, or of the graph. */
aten_value aten_size(aten *a, ir_value v, int64_t dim);
ir_value aten_shape(aten *a, ir_value v); /* all sizes as an i64 vector */
ir_value aten_numel(aten *a, ir_value v); /* i64 of rank 0 */
bool aten_is_empty(aten *a, ir_value v);  /* known to have no elements */
/* Int arithmetic that folds: op "add", "sub", "mul", "floor_divide" ... */
aten_value aten_int_op(aten *a, const char *op, aten_value x, aten_value y);
ir_value aten_reshape(aten *a, ir_value v, const int64_t *dims,
                      uint32_t count); /* aten::view with numbers, -1 allowed */
ir_value aten_permute(aten *a, ir_value v, const int64_t *dims, uint32_t count);
ir_value aten_swap(aten *a, ir_value v, int64_t d0, int64_t d1); /* transpose */
ir_value aten_unsqueeze(aten *a, ir_value v, int64_t dim);
ir_value aten_squeeze(aten *a, ir_value v, int64_t dim);
ir_value aten_slice(aten *a, ir_value v, int64_t dim, int64_t start, int64_t end, int64_t step);
ir_value aten_select(aten *a, ir_value v, int64_t dim, int64_t index);
ir_value aten_expand(aten *a, ir_value v, ir_value shape);
ir_value aten_cat(aten *a, const ir_value *v, uint32_t count, int64_t dim);
ir_value aten_scalar_like(aten *a, ir_value like, double number); /* rank 0 of the dtype of `like` */
ir_value aten_full(aten *a, ir_value shape, ir_value number);     /* of the dtype of `number` */
ir_value aten_binary(aten *a, const char *op, ir_value x, ir_value y);
ir_value aten_with_scalar(aten *a, const char *op, ir_value x, double y);
int32_t aten_rank(aten *a, ir_value v);
td_dtype aten_value_dtype(aten *a, ir_value v);

/* ---- promotion (promote.c) --------------------------------------------------------------------------------------- */

td_dtype aten_promote_types(td_dtype x, td_dtype y);
/* Operands as PyTorch's result_type weighs them: those with dimensions, those of rank 0, numbers. */
typedef struct aten_mix {
  td_dtype dims, zero, wrapped; /* TD_INVALID: none */
} aten_mix;
void aten_mix_tensor(aten *a, aten_mix *m, ir_value v);
void aten_mix_value(aten *a, aten_mix *m, const aten_value *v); /* a tensor or a number */
td_dtype aten_mix_result(const aten_mix *m);
/* A tensor or number argument in `dtype`. */
ir_value aten_as(aten *a, const aten_value *v, td_dtype dtype);

/* ---- handles (cell.c) -------------------------------------------------------------------------------------------- */

/* A view: how a handle shows its base. */
typedef enum aten_view_kind {
  ATEN_VIEW_RESHAPE, /* the same elements in the same order */
  ATEN_VIEW_PERMUTE,
  ATEN_VIEW_SLICE,
  ATEN_VIEW_EXPAND,
  ATEN_VIEW_GATHER, /* of reads alone: elements chosen by `index` of the flattened base */
  ATEN_VIEW_KIND_COUNT
} aten_view_kind;

typedef enum aten_order { ATEN_DENSE, ATEN_STRIDED, ATEN_UNSURE } aten_order;

struct aten_cell {
  ir_value value;
  uint32_t born, saved, version;
  const char *broken;      /* where something was written that this cell may or may not show; NULL: nothing was */
  struct aten_cell *peers; /* a ring of cells that may be one storage; itself */
};

struct aten_tensor {
  aten_cell *cell;
  aten_tensor *base;      /* NULL: shows the cell as it is */
  aten_tensor *successor; /* what squeeze_ and the like made of it; views of it stay as they were */
  uint32_t born;
  aten_view_kind kind;
  ir_value shape;            /* of RESHAPE, EXPAND: i64 vector */
  ir_value start, end, step; /* of SLICE; index of FLIPPED in `start` */
  int64_t dim;
  int64_t order[BASE_MAX_RANK]; /* of PERMUTE */
  uint32_t order_count;
  aten_order dense;
  bool is_complex;          /* a last axis of 2 */
  const aten_value *number; /* that was given where the schema has a tensor, and is promoted as one; NULL: none was */
  /* of quantised tensors, whose cell holds integers */
  const struct aten_quant *quant;
  const struct aten_batch *batch; /* of a region of vmap: NULL: it hides no axes */
  /* what it showed when it was read last */
  ir_value cache;
  uint32_t cached_version, cached_rollback;
  ir_block cached_block;
};

typedef struct aten_quant {
  ir_value scale, zero; /* rank 0, or one per channel */
  int64_t axis;         /* -1: of the tensor */
} aten_quant;

aten_value aten_of_quantised(aten *a, ir_value value, ir_value scale, ir_value zero, int64_t axis);
/* Its real values; and `real` quantised with the scale and zero point (of the whole tensor) of `like`. */
aten_value aten_dequantised(aten *a, const aten_value *quantised);
aten_value aten_quantised_like(aten *a, ir_value real, const aten_value *like);
/* Has the operator's result a scale and zero point of its own where its operand is quantised? Then `y` with those.
 */
bool aten_is_fixed(const aten_args *c);
aten_value aten_quantised_fixed(aten_args *c, ir_value y, const aten_value *like);
aten_value aten_handle(aten *a, const aten_tensor *t); /* a copy of *t */
aten_value aten_fresh(aten *a, ir_value value, aten_order dense);
aten_value aten_alias(aten *a, const aten_value *of); /* another tensor that shows the same */
aten_value aten_now(const aten_value *v);             /* a tensor as it shows its memory now; others as they are */
/* A new cell with what `of` shows, which may or may not be the same storage. */
aten_value aten_maybe_alias(aten *a, const aten_value *of, ir_value value, aten_order dense);
aten_value aten_view_reshape(aten *a, const aten_value *of, ir_value shape);
aten_value aten_view_permute(aten *a, const aten_value *of, const int64_t *order, uint32_t count);
aten_value aten_view_slice(aten *a, const aten_value *of, int64_t dim, ir_value start, ir_value end, ir_value step);
aten_value aten_view_expand(aten *a, const aten_value *of, ir_value shape);
/* Elements of the flattened base at `index` (any shape); cannot be written to. */
aten_value aten_view_gather(aten *a, const aten_value *of, ir_value index);

/* x w^T + bias (or none) */
ir_value aten_linear(aten *a, ir_value x, ir_value w, ir_value bias);

/* The same of packed weights: x is quantised to 8 bits (7: `reduce_range`) by its own range. */
ir_value aten_linear_dynamic(aten_args *c, ir_value x, const aten_value *packed, bool reduce_range);

/* aten_graph_value of what becomes an item of a list of the graph, which does not say what its items are. */
ir_value aten_item_value(aten *a, const aten_value *v);

/* complex.c: a call of an ATEN_PARTS or ATEN_PRODUCT row where an operand is complex. */
bool aten_has_complex(const aten_args *c);
aten_value aten_complex_call(aten_args *c);
/* lower_complex.c: the same calls where an operand is complex. */
aten_value aten_complex_unary(aten_args *c);
aten_value aten_complex_binary(aten_args *c);
ir_value aten_complex_size(aten_args *c, const aten_value *v); /* absolute values */
aten_value aten_complex_pow(aten_args *c);
aten_value aten_complex_compare(aten_args *c);
aten_value aten_complex_of_real(aten_args *c, ir_value x, td_dtype d);
typedef struct aten_pair {
  ir_value re, im;
} aten_pair;
/* The parts of a complex tensor; and a complex tensor of parts, which broadcast. */
aten_pair aten_parts(aten_args *c, const aten_value *v);
aten_value aten_joined(aten_args *c, aten_pair p);
/* A tensor or number as a pair of `d`. */
aten_pair aten_pair_of(aten_args *c, const aten_value *v, td_dtype d);
/* `shape` filled with a number (or tensor of one), of parts of `d`. */
aten_value aten_complex_full(aten_args *c, ir_value shape, const aten_value *number, td_dtype d);

/* vmap.c: does a value hide axes of torch.vmap, or an item of it? And a call where one does. */
typedef struct aten_batch aten_batch;
bool aten_is_batched(const aten_value *v);
aten_value aten_batched_call(aten_args *c);
/* call.c: lowers the call of c->row with these arguments. */
aten_value aten_lower_call(aten_args *c);
/* A call of PyTorch's among those that another is said in: it promotes and broadcasts as a program's does. */
aten_value aten_call_of(aten_args *c, const char *name, const aten_value *args, uint32_t count);
#define ATEN_CALL(c, name, ...) \
  aten_call_of((c), (name), (aten_value[]){__VA_ARGS__}, sizeof((aten_value[]){__VA_ARGS__}) / sizeof(aten_value))

/* journal.c */
void aten_turn(aten *a, aten_tensor *tensor, aten_tensor *into);
void aten_save_cell(aten *a, aten_cell *cell);
void aten_save_list(aten *a, aten_list *list);
void aten_save_dict(aten *a, aten_dict *dict);

/* ---- lowerings: every function that a row names ------------------------------------------------------------------ */
#define ATEN_ROW(schema, lower, forms, data) aten_value aten_lower_##lower(aten_args *c);
#define ATEN_NONE_YET(schema)
#include "import/aten/schemas.def"
#undef ATEN_ROW
#undef ATEN_NONE_YET
#endif
