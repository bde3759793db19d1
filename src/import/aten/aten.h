/* aten.h -- the layer that the TorchScript and the torch.export front ends share: values known at import, PyTorch's
 * calls, aliasing.
 *
 * A front end evaluates its program at import. What import knows (numbers, texts, lists, modules) is an aten_value;
 * what only running can tell is a value of the graph: tensors, and int, float and bool as rank-0 tensors. aten_call
 * resolves a call as PyTorch does and lowers it to nodes at the place where the builder stands.
 *
 * Tensors are handles onto cells (PyTorch's storages). A view is a handle that says how it shows its base. Writing
 * (in-place operators, out=, copy_) goes through the views to the cell; every handle sees the new contents when it is
 * read next. So the graph itself is functional.
 *
 * Memory lives in the import's arena. Errors are the builder's sticky one: after a failure functions do nothing and
 * give zero values. */
#ifndef IMPORT_ATEN_ATEN_H
#define IMPORT_ATEN_ATEN_H
#include "ir/build.h"

typedef struct aten aten;               /* one import */
typedef struct aten_tensor aten_tensor; /* a handle; immutable itself */
typedef struct aten_cell aten_cell;     /* what tensors show; can change */
typedef struct aten_value aten_value;
typedef struct aten_promise aten_promise;

typedef enum aten_kind {
  ATEN_NONE,
  ATEN_INT, /* dtypes, layouts and memory formats too, with the numbers of c10::ScalarType etc. (float is 6) */
  ATEN_FLOAT,
  ATEN_BOOL,
  ATEN_COMPLEX,
  ATEN_STR,
  ATEN_DEVICE,
  ATEN_TENSOR,
  ATEN_LIST,
  ATEN_TUPLE,    /* immutable; a list in memory */
  ATEN_DICT,     /* keeps the order of insertion */
  ATEN_OBJECT,   /* the front end's: a module, an instance, an enum's member */
  ATEN_FUNCTION, /* the front end's */
  ATEN_FUTURE,   /* of a prim::fork */
  ATEN_UNDEFINED /* uninitialized(T): may be merged with anything, may not be read */
} aten_kind;

typedef struct aten_list {
  BASE_VEC(aten_value) items;
  ir_value graph;              /* id not 0: the contents are this list of the graph, and `items` is empty */
  const aten_promise *promise; /* of a list of the graph that holds futures */
  uint32_t born, saved;        /* the journal's: when it was made, and when its contents were noted last */
} aten_list;
typedef struct aten_dict {
  BASE_VEC(aten_value) keys, values;
  uint32_t born, saved;
} aten_dict;
/* The front end's objects begin with this. `slots` are attributes in the order of the class; `born` is aten_stamp when
 * it was made. */
typedef struct aten_object {
  const void *type; /* the front end's class */
  aten_value *slots;
  uint32_t slot_count, born;
} aten_object;
/* What a future will give; the front end's own begin with this. */
struct aten_promise {
  /* May one thing of the graph be a future of either? Tensors that both give may be one storage from then on. */
  bool (*meet)(const aten_promise *x, const aten_promise *y);
};

typedef struct aten_complex_number {
  double re, im;
} aten_complex_number;

/* Copied freely, in two registers. Lists, dicts and objects are shared by reference, as in Python; so are texts and
 * complex numbers, which do not change. */
struct aten_value {
  aten_kind kind;
  /* Of INT, FLOAT, BOOL: the rank-0 value (i64, f64, bool) that only running can tell; of LIST, FUTURE, STR: the value
   * of the graph. id 0: known at import, in `u`. */
  ir_value graph;
  union {
    int64_t i;
    double f;
    bool b;
    const aten_complex_number *complex; /* read by aten_complex_of */
    const base_str *text;               /* STR, DEVICE; read by aten_str_of */
    aten_tensor *tensor;
    aten_list *list; /* LIST, TUPLE */
    aten_dict *dict;
    aten_object *object;
    const void *function;
    const aten_promise *promise; /* FUTURE */
  } u;
};

static inline bool aten_is_known(const aten_value *v) {
  return v->kind == ATEN_LIST ? v->u.list->graph.id == 0 : v->graph.id == 0;
}
#define ATEN_NOTHING ((aten_value){.kind = ATEN_NONE})
static inline aten_value aten_int(int64_t i) { return (aten_value){.kind = ATEN_INT, .u.i = i}; }
static inline aten_value aten_float(double f) { return (aten_value){.kind = ATEN_FLOAT, .u.f = f}; }
static inline aten_value aten_bool(bool b) { return (aten_value){.kind = ATEN_BOOL, .u.b = b}; }
/* NONE and failed when out of memory; the bytes of `s` are not copied. */
aten_value aten_str(aten *a, base_str s);
aten_value aten_device(aten *a, base_str s);
aten_value aten_complex(aten *a, double re, double im);
/* Of a STR or DEVICE that is known; "" of others. Of a COMPLEX; 0 of others. */
base_str aten_str_of(const aten_value *v);
aten_complex_number aten_complex_of(const aten_value *v);

/* ---- an import ---- */

/* PyTorch's squeeze drops an axis where its size is 1: ranks are known before a run, sizes need not be. */
typedef enum aten_open_squeeze {
  ATEN_SQUEEZE_GUARDED, /* an axis of open size stays: the program itself says that it is not 1 */
  ATEN_SQUEEZE_STAYS,   /* it stays, and a run in which it has one element is refused */
  ATEN_SQUEEZE_GOES     /* where the program names it, and the caller does not say its size, it goes; a run in which it
                           has another number of elements than one is refused */
} aten_open_squeeze;

typedef struct aten_options {
  ir_build *build;
  base_arena *arena; /* of the import: at least as long as `aten` is used; the graph keeps nothing of it */
  int64_t version;   /* of the file's operator set (1 to 10), for the upgraders; 0: today's */
  aten_open_squeeze squeeze;
} aten_options;
/* NULL: out of memory (and the builder failed). */
aten *aten_new(const aten_options *options);
/* Did an axis stay that would go with ATEN_SQUEEZE_GOES? */
bool aten_has_open_squeeze(const aten *a);

/* ---- values ---- */

/* A new cell with these contents. `is_dense`: it is known to be contiguous (inputs, parameters, constants are). */
aten_value aten_of(aten *a, ir_value value, bool is_dense);
/* The tensor came with the file: it is older than all marks, whenever it was read. */
void aten_mark_first(const aten_value *tensor);
/* A tensor of the kind of `like` (complex, quantised) with these contents, that may be the same storage: after a write
 * to one of them the other cannot be read any more. */
aten_value aten_another(aten *a, const aten_value *like, ir_value value);
/* The two may be one storage. */
void aten_may_share(const aten_value *x, const aten_value *y);
/* Are the two tensors kept in the same way: plain, complex, or quantised by one scale? */
bool aten_kept_alike(aten *a, const aten_value *x, const aten_value *y);
bool aten_is_quantised(const aten_value *tensor);
bool aten_is_complex(const aten_value *v); /* a tensor of complex numbers */
/* False: aten_read fails, because what may be the same storage was written to. */
bool aten_can_read(const aten_value *tensor);
/* aten_of, of complex numbers, kept as a last axis of 2. */
aten_value aten_of_complex(aten *a, ir_value value);
/* A number of the graph as INT, FLOAT or BOOL (by its dtype; rank 0). Becomes a known one where the graph knows it. */
aten_value aten_number(aten *a, ir_value value);
/* What a tensor holds now. Fails when that cannot be proved. */
ir_value aten_read(aten *a, const aten_value *tensor);
/* Any value as one of the graph: tensors are read, numbers become rank-0 constants, lists td::list_new ... */
ir_value aten_graph_value(aten *a, const aten_value *v);
/* Writes `value` into what `tensor` shows (copy_: cast and expanded), as in-place operators do. */
void aten_write(aten *a, const aten_value *tensor, ir_value value);

aten_value aten_list_of(aten *a, const aten_value *items, uint32_t count);
/* A new list whose contents are a list of the graph; `promise`: of its futures, NULL where it holds none. */
aten_value aten_list_graph(aten *a, ir_value list, const aten_promise *promise);
aten_value aten_tuple_of(aten *a, const aten_value *items, uint32_t count);
aten_value aten_dict_of(aten *a);
aten_value aten_text(aten *a, const char *text); /* a STR; copied */
/* Every change of a list, dict or object goes through these (or through aten_call), so that the journal sees it. */
void aten_list_append(aten *a, aten_list *list, aten_value item);
void aten_list_set(aten *a, aten_list *list, uint32_t index, aten_value item);
void aten_dict_set(aten *a, aten_dict *dict, aten_value key, aten_value value);
const aten_value *aten_dict_get(const aten_dict *dict, const aten_value *key); /* NULL: not there */
void aten_object_set(aten *a, aten_object *object, uint32_t slot, aten_value value);
/* Python's == of values known at import; tensors compare by identity. */
bool aten_same(const aten_value *x, const aten_value *y);
/* Python's str(). */
void aten_print(const aten_value *v, base_text *text);
const char *aten_kind_name(const aten_value *v); /* "int", "Tensor", "List" ... for errors */

/* c10 has the complex types 3 behind those of their parts. */
static inline bool aten_is_complex_type(int64_t scalar_type) { return scalar_type >= 8 && scalar_type <= 10; }
static inline int64_t aten_part_type(int64_t complex_type) { return complex_type - 3; }
/* Towards 0; what no int holds becomes an end of their range, NaN 0. */
static inline int64_t aten_whole(double number) { return base_load_i64(TD_F64, &number, 0); }
td_dtype aten_dtype(aten *a, int64_t scalar_type);       /* of c10::ScalarType; fails on those without a td_dtype */
int64_t aten_scalar_type(const aten *a, td_dtype dtype); /* -1: none */
int64_t aten_tensor_scalar_type(aten *a, const aten_value *tensor); /* complex too */

/* ---- calls ---- */

typedef struct aten_keyword {
  base_str name;
  aten_value value;
} aten_keyword;

/* Calls `name` ("aten::add", "prim::device", "quantized::linear"). `overload` is the overload's name ("Tensor", "" for
 * the unnamed or "default" one), or NULL: resolved as PyTorch does, in registered order, without implicit conversions
 * and then with them. Gives the result; several are a TUPLE, none is NONE. In-place calls give their first operand.
 * Fails naming the operator, with the candidates where none fits; a refusal says what it was given. */
aten_value aten_call(aten *a, const char *name, const char *overload, const aten_value *args, uint32_t arg_count,
                     const aten_keyword *keywords, uint32_t keyword_count);

/* Can `name` (with `overload`, or any of its overloads when that is NULL) be lowered? */
bool aten_supports(aten *a, const char *name, const char *overload);
/* Notes something that is not supported, and where (NULL: the builder's frame); the front end goes through the whole
 * program first. Each (what, reason) counts once per call of this. */
void aten_note_missing(aten *a, const char *what, const char *where, const char *reason);
/* Fails with TD_UNSUPPORTED naming all that was noted, with counts and first places. Nothing noted: does nothing. */
void aten_report_missing(aten *a);

/* ---- what changes: for branches and loops ---- */

/* Everything that a program can change is a place. Changes since a mark are known, and can be undone: a front end
 * builds a branch, looks at what changed, takes it back, builds the other branch, and makes what either changed results
 * of the region. */
typedef enum aten_place_kind {
  ATEN_PLACE_CELL,
  ATEN_PLACE_LIST,
  ATEN_PLACE_DICT,
  ATEN_PLACE_SLOT,
  ATEN_PLACE_TENSOR /* how a tensor shows its cell: known to change, cannot be put back */
} aten_place_kind;
typedef struct aten_place {
  aten_place_kind kind;
  void *at;      /* aten_cell, aten_list, aten_dict, aten_object, aten_tensor */
  uint32_t slot; /* of SLOT */
} aten_place;

typedef struct aten_mark {
  uint32_t entry, number;
} aten_mark;
/* Marks nest: each is followed by one aten_rollback or aten_commit. */
aten_mark aten_mark_now(aten *a);
/* The places changed since `mark`, each once, in the order of their first change; in the import's arena. Places made
 * since the mark are among them (whoever did not know them before need not carry them). */
uint32_t aten_changed(aten *a, aten_mark mark, aten_place **places);
/* Everything is as it was at the mark. */
void aten_rollback(aten *a, aten_mark mark);
/* The changes stay; an outer mark still sees them. */
void aten_commit(aten *a, aten_mark mark);
/* For `born` of a new object. */
uint32_t aten_stamp(const aten *a);
/* Was the place there at `mark`? False: it was made since, and nothing from before can reach it. */
bool aten_place_older(const aten *a, const aten_place *place, aten_mark mark);
/* The cell that a tensor shows, as a place names it. */
aten_cell *aten_cell_of(const aten_value *tensor);
/* What stands there: of a cell a TENSOR showing all of it, read now (a value, not a handle: writing does not reach the
 * cell); of a list a LIST, of a dict a DICT with copies of its items; of a slot its value. */
aten_value aten_place_get(aten *a, const aten_place *place);
/* Where something was written that what stands there may or may not share its memory with; NULL: nothing was. */
const char *aten_place_broken(const aten_place *place);
/* From now on it cannot be read: something was written at `why` that may share its memory. Journalled. */
void aten_place_break(aten *a, const aten_place *place, const char *why);
/* Puts a value of that kind there (journalled). The dtype and sizes of a cell's tensor may change. */
void aten_place_set(aten *a, const aten_place *place, const aten_value *value);
#endif
