/* api_priv.h -- the handles. */
#ifndef API_API_PRIV_H
#define API_API_PRIV_H
#include <stdatomic.h>

#include "compile/compile.h"
#include "debug/debug.h"
#include "export/export.h"
#include "import/import.h"
#include "kernels/kernels.h"
#include "passes/passes.h"
#include "runtime/runtime.h"
#include "sys/sys.h"

/* A file that is mapped for the life of its model. */
typedef struct api_file {
  const char *location; /* of external data, as the model names it; NULL: the model or its weights */
  sys_mapping mapping;
} api_file;

typedef struct api_told api_told;

/* Sizes that a variant of the plan is for. */
typedef struct api_variant {
  const char *label; /* "batch=8 seq=128" */
  const ir_size *sizes;
  uint32_t count;
  uint32_t changes[PASSES_MAX]; /* what each pass did */
} api_variant;

struct td_model {
  td_allocator allocator;
  base_arena *arena; /* this struct, the operator set, copies of options */
  const ir_opset *ops;
  char *path;          /* NULL: from memory */
  const char *builtin; /* what stands after builtin: in the path; NULL: a file */
  /* Whole, in memory of the model: texts are NULL where there is none, never empty; flags are 0 or 1. */
  td_load_options options;
  /* What they name. */
  const compile_backend *backend;
  uint32_t isa; /* BASE_ISA_* that kernels may use */
  kern_math math;
  kern_precision precision;
  kern_tuning tuning;

  uint32_t cpu_isa;               /* BASE_ISA_* of this machine */
  bool lacks;                     /* the CPU lacks what the plan needs: it can be saved, not run */
  run_copies *copies;             /* NULL: none */
  uint32_t changes[PASSES_MAX];   /* what each pass did */
  BASE_VEC(api_variant) variants; /* that were compiled: as those of the plan; none of a saved plan */
  const void *bytes;              /* the model file, or the weights of a built-in model */
  size_t size;
  const import_weight *given; /* that the caller has in memory */
  uint32_t given_count;
  BASE_VEC(api_file) files; /* the model, its external data, its weights */
  plan_exe *plan;           /* complete: the graph it was made of is gone */
  bool brief;               /* its origins are (import_source.brief) */
  _Atomic(run_pool *) pool; /* of sessions that ask for no threads of their own: NULL until one does */
  _Atomic(api_told *) told; /* the plan with the user's places: NULL until somebody asks, then never changed */
  td_model_stats stats;
};

struct td_session {
  td_allocator allocator;
  run_session *run;
  run_pool *own; /* NULL: the caller's thread alone, or a shared pool */
  const td_model *model;
  run_queue *queue; /* NULL: no run of it was asynchronous yet */
  atomic_flag making_queue;
};

/* Makes the options the model's own, and finds what they name (options.c). */
td_status api_take_options(td_model *model, const td_load_options *options, td_error *err);
/* Refuses NULL, and a session whose asynchronous runs are under way. */
td_status api_check_session(const td_session *session, const char *function, td_error *err);
/* A caller's tensor as a value, checked. */
td_status api_value(const td_tensor *tensor, base_value *value, td_error *err);
void api_to_tensor(const base_tensor *t, td_tensor *tensor);
/* The options of a run, checked, in a request whose arrays have room. */
struct td_run_options;
td_status api_fill_request(const td_model *model, const struct td_run_options *options, run_request *request,
                           td_error *err);
/* Refuses a model whose CPU is another one. */
td_status api_check_runs_here(const td_model *model, td_error *err);
run_pool *api_pool(const td_pool *pool); /* NULL: NULL */

/* Reads an options struct (NULL: none) whose caller may know fewer or more fields. One without its size is refused, and
 * one in which a field is set that is not known here. */
td_status api_read_options(void *to, size_t to_size, const void *from, td_error *err);
/* The same of element `index` of an array; stride 0: to_size. */
td_status api_read_item(void *to, size_t to_size, const void *array, size_t stride, size_t index, td_error *err);
/* Writes a stats struct of the caller's size. */
td_status api_write_stats(void *to, const void *from, size_t from_size, td_error *err);
/* Copies the weights to the memory of each node, if the options ask for that. */
td_status api_copy_to_nodes(td_model *model, td_error *err);
/* How the model's graph is compiled. */
compile_setting api_setting(const td_model *model);
bool api_is_saved(const td_model *model); /* are its bytes a plan that td_model_save wrote? */
/* Sets the plan of such a model. */
td_status api_open(td_model *model, uint64_t started, td_error *err);
/* Operands of step `index` in the last run, as PyTorch's traces write them: sizes "[[1, 3], []]", element types
 * "["float", ""]". What is no tensor, or not known, is empty. */
void api_print_dims(const td_session *session, uint32_t index, base_text *text);
void api_print_types(const td_session *session, uint32_t index, base_text *text);
/* Tells model->options.dump what the model, or a variant (else NULL) becomes (dump.c). In the model's arena; NULL: out
 * of memory. */
typedef struct api_dump api_dump;
api_dump *api_dump_new(const td_model *model, const api_variant *variant, td_error *err);
void api_dump_free(api_dump *dump); /* NULL is allowed */
/* The graph after `stage`, the first time as it was imported; as compile_setting.seen. `user`: the dump. */
td_status api_dump_graph(void *user, const char *stage, const ir_graph *graph, td_error *err);
/* A file of generated code, as compile_setting.coded. */
td_status api_dump_code(void *user, const char *name, const char *bytes, size_t count);
/* The plan, the loops, and what each stage took. */
td_status api_dump_plan(api_dump *dump, const plan_exe *of);
/* The plan as people are shown it, with the user's places in its origins (origins.c); variants are at the same numbers.
 * Where memory is lacking the model's own. Thread-safe. */
const plan_exe *api_told_plan(const td_model *model);
void api_told_free(td_model *model);
/* An error that names a node, likewise. Gives `status`. */
td_status api_tell_error(const td_model *model, td_status status, td_error *err);
/* Passes a warning on, likewise; `user`: the model. */
void api_warn(void *user, const char *text);
/* A place for one more file of the model's. NULL: out of memory. */
sys_mapping *api_add_file(td_model *model, const char *location);
import_source api_source(const td_model *model);
/* Imports the model again or for the first time. The graph is the caller's; its origins are whole. */
td_status api_import(td_model *model, ir_graph **graph, td_error *err);
/* The same with what the options ask for before the passes, for the sizes of a variant (NULL: for all); and as it is
 * lowered, behind them. */
td_status api_prepare(td_model *model, const api_variant *variant, bool brief, ir_graph **graph, td_error *err);
td_status api_rewrite(const td_model *model, const api_variant *variant, ir_graph **graph, td_error *err);
/* Compiles a graph that was prepared for the variant (NULL: for all sizes), and tells whoever wants to know what
 * becomes of it. */
td_status api_compile(td_model *model, api_variant *variant, ir_graph *graph, plan_exe **plan, td_error *err);
/* Compiles the variants that model->options.specialise asks for (specialise.c). */
td_status api_specialise(td_model *model, td_error *err);
/* The plan, general or a variant, that step `index` of all is of, and its number there. NULL: there are not so many. */
const plan_exe *api_plan_of(const td_model *model, size_t index, uint32_t *step);
const plan_exe *api_told_plan_of(const td_model *model, size_t index, uint32_t *step); /* see api_told_plan */
/* Among all steps, the number of the first of the plan in use. */
uint32_t api_first_step(const td_session *session);
#endif
