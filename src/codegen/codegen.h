/* codegen.h -- the one header of this room: programs of fused loops become functions of machine code. */
#ifndef CODEGEN_CODEGEN_H
#define CODEGEN_CODEGEN_H
#include "base/program.h"
#include "base/base.h"

/* One program. `run` takes the place of a kernel: it is called as one, and counts on the call's attribute 0 being the
 * program. */
typedef struct codegen_kernel {
  const base_program *program;
  uint64_t scalars; /* bit k: operand k is one number along a row; where it is not, the program is interpreted */
  const char *const *origins; /* names of the nodes, for comments and errors */
  uint32_t origin_count;
  const char *name; /* out: in the arena */
  base_call_fn run; /* out */
} codegen_kernel;

typedef struct codegen_setting {
  const char *cc;    /* path of the C compiler */
  const char *cache; /* folder of this user alone; made where it is not there */
  uint32_t isa;      /* BASE_ISA_* that the code may use */
  uint32_t jobs;     /* compilers at once, at least 1 */
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

/* Gives each kernel its function, compiled now or before. The functions live until codegen_free. Errors say which step
 * failed, of which kernels, and where their source is; nothing is loaded then. Safe in many processes and threads at
 * once on one cache. */
td_status codegen_load(codegen_kernel *kernels, uint32_t count, const codegen_setting *setting, base_arena *arena,
                       codegen_code **code, td_error *err);
void codegen_free(codegen_code *code); /* NULL is allowed */
/* Of the kernel called `name`; texts live as long as the arena of codegen_load. NULL: it has no such kernel. */
const codegen_place *codegen_find_place(const codegen_code *code, const char *name);

/* The C text of kernels [0, count), for people and for codegen_load. False: out of memory. */
bool codegen_emit(const codegen_kernel *kernels, uint32_t count, base_text *text);
#endif
