/* codegen_priv.h -- what the files of this room share. */
#ifndef CODEGEN_CODEGEN_PRIV_H
#define CODEGEN_CODEGEN_PRIV_H
#include "codegen/codegen.h"

/* A file of C text and what becomes of it. */
typedef struct codegen_unit {
  const codegen_kernel *kernels; /* what it holds */
  uint32_t count;
  base_text text;
  char *stem; /* path of its files without their endings, by content */
  void *code; /* loaded */
} codegen_unit;

/* The path of the unit's files: the cache and a digest of the text, the compiler and its options. NULL: no memory. */
char *codegen_stem(const codegen_unit *unit, const codegen_setting *setting, const char *const *options,
                   base_arena *arena);
/* The object of the unit, if it is in the cache, private, and unharmed. NULL: it is not. */
void *codegen_find(const char *stem, base_arena *arena);
/* Seals the object that was made at `made`, and gives it its name in the cache. */
td_status codegen_publish(const char *made, const char *stem, base_arena *arena, td_error *err);
#endif
