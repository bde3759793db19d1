/* ts_priv.h -- the state of one TorchScript import, and what its files ask of each other. The program of the archive is
 * run once, at import, in the value domain of import/aten: modules, numbers and lists are known, tensors become values
 * of the graph, and what only running can tell becomes regions. */
#ifndef IMPORT_TORCHSCRIPT_TS_PRIV_H
#define IMPORT_TORCHSCRIPT_TS_PRIV_H
#include "fmt/fmt.h"
#include "import/aten/aten.h"
#include "import/import.h"
#include "import/torchscript/ast_priv.h"

typedef struct ts_import ts_import;
typedef struct ts_frame ts_frame;
typedef struct ts_shape ts_shape;
typedef struct ts_state ts_state;
typedef BASE_VEC(ts_state *) ts_states;
typedef struct ts_object ts_object;

/* ---- the archive ------------------------------------------------------------------------------------------------- */

typedef struct ts_archive {
  base_arena *arena; /* of records, objects and source trees */
  const uint8_t *bytes;
  size_t size;
  const char *file;
  fmt_zip zip;
  base_str folder; /* with its slash */
  int64_t version; /* of the operator set */
  fmt_storage_set data, constants;
  fmt_object *root;           /* data.pkl: the module */
  fmt_object *constant_tuple; /* constants.pkl */
  base_map sources;           /* "__torch__/net" -> position in `files` */
  BASE_VEC(ts_source *) files;
  td_error *err;
} ts_archive;

/* archive.c */
td_status ts_archive_open(ts_archive *ar, base_arena *arena, const import_source *source, td_error *err);
/* From now on what weights must be copied (inflated ones) goes to `keep`: a graph's arena. */
void ts_archive_keep(ts_archive *ar, base_arena *keep);
bool ts_archive_sniff(const void *bytes, size_t size);
/* The file that holds the names of module `path` ("__torch__.torch.nn"), parsed; *out NULL: there is none. */
td_status ts_archive_source(ts_archive *ar, base_str path, ts_source **out);

/* ranges.c: where the user wrote what stands at `place`: "model.py:41, in forward", or "net.py:7" of the archive's own
 * text where the archive does not say. In the archive's arena; NULL: out of memory. */
const char *ts_user_place(ts_archive *ar, ts_source *source, ts_place place, base_str function);
/* The same in the archive's own text, "code/__torch__/net.py:7:2, in forward", which needs no table. */
const char *ts_brief_place(ts_archive *ar, const ts_source *source, ts_place place, base_str function);
/* `text` with the user's places for brief ones. */
const char *ts_tell(ts_archive *ar, const char *text);

/* ---- classes ----------------------------------------------------------------------------------------------------- */

typedef enum ts_class_kind {
  TS_CLASS_PLAIN,
  TS_CLASS_MODULE,
  TS_CLASS_TUPLE,
  TS_CLASS_ENUM,
  TS_CLASS_INTERFACE
} ts_class_kind;

typedef struct ts_class {
  base_str name; /* qualified */
  ts_class_kind kind;
  const ts_class_def *def;
  ts_source *source;
  base_map slots;                  /* attribute -> slot; of an enum's members: name and value */
  base_map constants;              /* Final: name -> field of def */
  base_map methods;                /* name -> method of def */
  ts_object **members;             /* of an enum, by field of def; NULL: not made yet */
  BASE_VEC(base_str) names;        /* of slots */
  BASE_VEC(const ts_expr *) types; /* of slots; NULL: not known */
} ts_class;

/* The program's own objects. */
struct ts_object {
  aten_object base;         /* base.type: the ts_class */
  const fmt_object *record; /* in data.pkl; NULL: made by the program */
  const char *path;         /* "layer1.0.conv1" of a module; NULL: none */
};

/* A function as a value. */
typedef struct ts_callable {
  ts_function *function;
  ts_source *source;
  ts_class *class; /* of a method or constructor */
  ts_object *self; /* of a method; NULL: a function */
  ts_frame *outer; /* of a closure: the frame it was defined in */
  const char *op;  /* of an operator: its name */
} ts_callable;

/* classes.c: NULL in *out where there is none of that name. */
td_status ts_find_class(ts_import *im, base_str name, ts_class **out);
td_status ts_find_function(ts_import *im, base_str name, ts_function **out, ts_source **source);
ts_function *ts_find_method(const ts_class *class, base_str name);
ts_object *ts_new_object(ts_import *im, ts_class *class);
static inline ts_class *ts_class_of(const aten_object *o) { return (ts_class *)(uintptr_t)o->type; }

/* objects.c: a pickled object as a value. The same object gives the same value. `type`: its declared type, or NULL. */
aten_value ts_load_object(ts_import *im, const fmt_object *object, bool is_constant, const char *path);
/* The member of an enumeration with this value. */
aten_value ts_enum_of_value(ts_import *im, ts_class *class, const aten_value *value);
aten_value ts_enum_of_name(ts_import *im, ts_class *class, base_str name);
/* custom.c: an object of a class that PyTorch has in C++: packed parameters. */
aten_value ts_load_custom(ts_import *im, base_str name, const fmt_object *state, bool is_constant, const char *path);

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* types.c: does `v` have the type that `type` spells? */
bool ts_is_instance(ts_import *im, const aten_value *v, const ts_expr *type);
bool ts_type_is(const ts_expr *type, const char *name);
/* The first argument of `List[T]`, `Optional[T]`; NULL: another type. */
const ts_expr *ts_type_argument(const ts_expr *type, const char *name, uint32_t index);
/* "a.b.c" of names and attributes; length 0: no such path, or too long. In the import's arena. */
base_str ts_dotted(ts_import *im, const ts_expr *e);

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct ts_local {
  base_str name;
  aten_value value;
  bool set;
  const char *spoiled; /* why it has no value any more */
} ts_local;

struct ts_frame {
  ts_import *im;
  ts_frame *outer; /* of a closure; NULL */
  ts_function *function;
  ts_source *source;
  const char *path; /* of the module whose method runs; "" */
  base_map names;   /* -> position in locals */
  BASE_VEC(ts_local) locals;
  uint32_t loop_start; /* offset of the outermost loop that runs; UINT32_MAX: none */
  bool returned, raised;
  aten_value result;
};

/* A bool of the graph that is known where the builder stands: the condition of a branch, inside of it. */
typedef struct ts_fact {
  uint32_t value;
  bool holds;
} ts_fact;

/* An object of the file, and where it was found first. */
typedef struct ts_loaded {
  const fmt_object *object;
  const char *path;
  bool is_constant;
} ts_loaded;

/* Conditions whose branches give tensors of different ranks. Such a tensor has no rank, which few operators can use;
 * where an attempt fails, the next one takes one way alone of those found so far, and has the run check that. */
typedef struct ts_uneven {
  BASE_VEC(const ts_stmt *) found; /* in the archive's arena */
  uint32_t taken;                  /* the first so many */
  aten_open_squeeze squeeze;       /* axes of open size that squeeze drops, or not, are alike */
} ts_uneven;

struct ts_import {
  const import_source *source;
  ts_archive *archive;
  ts_source *main_source; /* of the method that runs */
  base_arena *arena;      /* of this attempt's values */
  ir_graph *graph;
  ir_build build;
  aten *a;
  base_map classes; /* qualified name -> position in `class_list`, or TS_NO_CLASS */
  BASE_VEC(ts_class *) class_list;
  base_map loaded; /* a fmt_object's address -> position in `values` */
  BASE_VEC(aten_value) values;
  BASE_VEC(ts_loaded) objects; /* of `values` */
  ts_states *states;           /* of all attempts; in the archive's arena */
  ts_uneven *uneven;           /* of all attempts */
  bool again;                  /* there is more state than this attempt knew */
  ts_class *maybe;             /* of values that may be None, which only running can tell: see shape.c */
  BASE_VEC(ts_fact) facts;     /* of the regions around what is built now */
  uint32_t regions;            /* of the graph around what is built now */
  bool raised;                 /* the program has raised; nothing runs up to the end of the region */
  const char *raise_text;      /* what it said */
  uint32_t depth;              /* of calls, blocks and expressions */
  uint32_t nesting;            /* of pickled objects */
  uint64_t steps;              /* statements so far */
  size_t memory_limit;
  td_error *err;
};
#define TS_NO_CLASS UINT32_MAX

static inline bool ts_ok(const ts_import *im) { return im->build.status == TD_OK; }
/* Fails at a place of the program: "code/net.py", "line 7: ...", unless it has failed already. */
/* "layer1.0.conv1 (aten::conv2d) model.py:41, in forward": the origin of what is built for `place`. Never NULL. */
const char *ts_origin(ts_frame *f, ts_place place, const char *what);
void ts_fail(ts_frame *f, ts_place place, td_status status, const char *format, ...) BASE_PRINTF(4, 5);

/* eval.c */
aten_value ts_eval(ts_frame *f, const ts_expr *e);
/* call.c */
aten_value ts_eval_call(ts_frame *f, const ts_expr *e);
aten_value ts_call(ts_frame *f, ts_place place, const ts_callable *c, const aten_value *args, uint32_t count,
                   const aten_keyword *keywords, uint32_t keyword_count);
aten_value ts_eval_path(ts_frame *f, const ts_expr *e, base_str path); /* a dotted name that no local begins */
/* builtin.c: `annotate`, `getattr`, `isinstance` ...; *found false: `name` is none of them. */
aten_value ts_eval_builtin(ts_frame *f, const ts_expr *e, base_str name, bool *found);
/* exec.c */
void ts_exec_block(ts_frame *f, const ts_block *block);
/* branch.c, loop.c: what a region takes along from the program: locals and places. */
typedef struct ts_cargo {
  bool is_place;
  uint32_t index; /* of the local in its frame */
  aten_place place;
  ts_shape *shape; /* NULL: cannot be carried, or (a place) not be read behind it; `why` */
  const char *why;
  aten_value before;
} ts_cargo;
/* Notes that a bool of the graph is known from here on; who leaves a region takes im->facts.count back. */
void ts_note_fact(ts_import *im, ir_value value, bool holds);
/* The bool, known where a fact says it. */
aten_value ts_with_facts(const ts_import *im, aten_value flag);
/* A value as a condition: a bool. */
aten_value ts_truth(ts_import *im, aten_value v);
void ts_exec_if(ts_frame *f, const ts_stmt *s);
void ts_exec_for(ts_frame *f, const ts_stmt *s);
void ts_exec_while(ts_frame *f, const ts_stmt *s);

/* fork.c: the function as a task, and its future; or, where it changes what others see, run at once, and its result. */
aten_value ts_fork(ts_frame *f, ts_place place, const ts_callable *callee);
/* What a task gives; anything else is itself. */
aten_value ts_wait(ts_frame *f, ts_place place, const aten_value *v);
/* What a future of the graph will give (u.promise of a FUTURE). */
typedef struct ts_promise {
  aten_promise base;
  ts_import *im;
  ts_shape *shape;    /* of the value; its leaves are the task's results */
  const char *raises; /* the task never gives anything: what it says instead. NULL: it may */
  aten_object
      *waited; /* what it gives can be changed, so that it may be waited for once: slot 0, was it? NULL: can't */
} ts_promise;
/* The program ends here: outright, or the region that is built. */
void ts_raise(ts_frame *f, ts_place place, const char *message);

/* shape.c: how values of a program become values of a region (results of branches, what a loop carries), and back.
 * A shape says which parts of a value are known and the same on all ways, and which are leaves: values of the graph. */
/* A copy that later changes do not reach: tensors are read, containers copied. Parts that are the same thing as in
 * `before` (may be NULL) stay that thing. */
aten_value ts_freeze(ts_import *im, const aten_value *v, const aten_value *before);
/* What holds both. NULL: they cannot meet; *why says it. */
ts_shape *ts_shape_join(ts_import *im, const aten_value *x, const aten_value *y, const char **why);
/* Of what a task gives that began at `mark`: what import knows stays known, and what was there before is itself. */
ts_shape *ts_shape_given(ts_import *im, const aten_value *v, aten_mark mark, const char **why);
/* Do leaves of both mean the same? Tensors of both may be one storage from then on. */
bool ts_shape_meet(ts_import *im, const ts_shape *x, const ts_shape *y);
/* Fails where a tensor that a task gives may be the storage of one that was written to since. */
void ts_shape_check(ts_import *im, const ts_shape *s);
/* Is there a list, dict or object in it that the program could change? */
bool ts_shape_can_change(const ts_shape *shape);
/* What holds all that `shape` holds, and `v`. */
ts_shape *ts_shape_widen(ts_import *im, ts_shape *shape, const aten_value *v, bool *changed, const char **why);
uint32_t ts_shape_leaves(const ts_shape *shape);
/* Leaves of `v` in order, into leaves[0..]; nodes may be added where the builder stands. */
void ts_flatten(ts_import *im, const ts_shape *shape, const aten_value *v, ir_value *leaves);
/* Leaves of a value of the file, as the first values of session state; none where it is not there. */
void ts_initials(ts_import *im, const ts_shape *shape, const aten_value *v, ir_initial *out);
aten_value ts_unflatten(ts_import *im, const ts_shape *shape, const ir_value *leaves);
/* Of one value, with every tensor and number a leaf. */
ts_shape *ts_shape_open(ts_import *im, const aten_value *v, const char **why);
/* A value of `type` that nobody will look at: what a way that does not set a result gives for it. */
ir_value ts_something(ts_import *im, const ir_type *type);
static inline bool ts_is_maybe(const ts_import *im, const aten_value *v) {
  return v->kind == ATEN_OBJECT && v->u.object->type == im->maybe;
}
enum { TS_MAYBE_HAS, TS_MAYBE_VALUE, TS_MAYBE_SLOTS };

/* inputs.c: arguments of the method that runs, without self, from the caller's specs. NULL: failed. */
aten_value *ts_make_inputs(ts_import *im, ts_function *function, uint32_t *count);
aten_value ts_eval_default(ts_import *im, const ts_expr *e);
/* state.c: what is state so far takes the place of what the file holds; at the end what changed is stored, or becomes
 * state for the next attempt (true). Ends `mark`. */
void ts_declare_state(ts_import *im);
bool ts_store_state(ts_import *im, aten_mark mark);

/* frame.c */
ts_local *ts_find_local(ts_frame *f, base_str name); /* NULL: none */
ts_local *ts_make_local(ts_frame *f, base_str name); /* found or made; NULL: out of memory */
void ts_set_local(ts_frame *f, base_str name, aten_value value);
bool ts_is_live(const ts_frame *f, base_str name, uint32_t offset); /* may it be read behind this offset? */
/* Guards against programs that never end, or whose nesting would take the stack. False: failed. */
bool ts_enter_depth(ts_frame *f, ts_place place);

/* attributes of values: eval.c */
aten_value ts_get_attribute(ts_frame *f, ts_place place, const aten_value *v, base_str name);
#endif
