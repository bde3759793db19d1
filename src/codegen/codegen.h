/* codegen.h -- the one header of this room: programs of fused loops become functions of machine code. */
#ifndef CODEGEN_CODEGEN_H
#define CODEGEN_CODEGEN_H
#include "base/program.h"
#include "base/base.h"

#include <stdatomic.h>

/* One program: a loop of its own, or the chain of a product's epilogue (kernels/loops/loops.h). `run` takes the place
 * of a kernel: it is called as one, and counts on the call's attribute 0 being the program. `body` is what a product's
 * kernel gets as its call's code. */
typedef struct codegen_kernel {
  const base_program *program;
  uint64_t scalars; /* bit k: operand k is one number along a row; where it is not, the program is interpreted */
  const char *const *origins; /* names of the nodes, for comments and errors */
  uint32_t origin_count;
  const int64_t *from; /* per op of the program: the origin that it came of, or anything else; NULL: not known */
  const char *name;    /* set by codegen_name */
  bool chain;
  base_call_fn run; /* out: of a loop; NULL: there is none */
  const void *body; /* out: of a chain, likewise */
} codegen_kernel;

typedef struct codegen_setting {
  const char *cc;           /* path of the C compiler */
  const char *cache;        /* folder of this user alone; made where it is not there */
  uint32_t isa;             /* BASE_ISA_* that the code may use */
  uint32_t jobs;            /* compilers at once, at least 1 */
  uint32_t limit_ms;        /* that one may take; 0: a minute */
  bool keep;                /* codegen_object_at is going to be asked for */
  const _Atomic bool *stop; /* ends the work when it becomes true; NULL: nothing does */
  /* Is told of kernels as soon as they have their functions, so that there are more files of fewer kernels; NULL:
   * nobody is. */
  void (*made)(void *user, const codegen_kernel *kernels, uint32_t count);
  void *made_user;
  /* Gets each file of text, "generated.0.c", and its compiler's command, "generated.0.sh"; NULL: nobody. */
  td_status (*coded)(void *user, const char *name, const char *bytes, size_t count);
  void *coded_user;
  const char *edited; /* folder with such files: where one is there it is taken for the text; NULL: none */
} codegen_setting;

/* Loaded code. */
typedef struct codegen_code codegen_code;

/* Where the code of a kernel is: its function over rows, in memory and in the C text. */
typedef struct codegen_place {
  const char *name; /* of the kernel */
  const void *at;
  size_t bytes;
  const char *source; /* path of the C text, which the cache may have thrown away since */
  uint32_t line;      /* 0: unknown */
} codegen_place;

/* Gives each kernel a name, in the arena. False: out of memory. */
bool codegen_name(codegen_kernel *kernels, uint32_t count, base_arena *arena);
/* Gives each kernel, which has a name, its function, compiled now or before. The functions live until codegen_free. An
 * error says what failed, of which kernels and nodes, and where their source is; those kernels that it does not touch
 * have functions all the same, and *code is not NULL where there are any. Safe in many processes and threads at once on
 * one cache: what one compiles the others wait for. */
td_status codegen_load(codegen_kernel *kernels, uint32_t count, const codegen_setting *setting, base_arena *arena,
                       codegen_code **code, td_error *err);
void codegen_free(codegen_code *code); /* NULL is allowed */
/* Of the kernel called `name`; texts live as long as the arena of codegen_load. NULL: it has no such kernel. */
const codegen_place *codegen_find_place(const codegen_code *code, const char *name);

/* A shared object as it lies in a file. */
typedef struct codegen_object {
  const void *bytes;
  size_t size;
} codegen_object;
/* Object `index` of code that was loaded with `keep`, in the arena of that load. False: there are not so many. */
bool codegen_object_at(const codegen_code *code, uint32_t index, codegen_object *object);
/* Loads objects that were kept, which are trusted as the caller's own code is, and gives `kernels`, of which name and
 * chain count, their functions. `isa` as when they were made. Errors: TD_BAD_FILE where a function is missing. */
td_status codegen_open(const codegen_object *objects, uint32_t count, uint32_t isa, codegen_kernel *kernels,
                       uint32_t kernel_count, base_arena *arena, codegen_code **code, td_error *err);
/* BASE_ISA_* that code made for `isa` uses. */
uint32_t codegen_needs(uint32_t isa);
/* A number for what generated code and this library must agree on: objects of another one cannot be loaded. */
uint64_t codegen_contract(void);

/* The C text of kernels [0, count), for people and for codegen_load. False: out of memory. */
bool codegen_emit(const codegen_kernel *kernels, uint32_t count, base_text *text);
#endif
