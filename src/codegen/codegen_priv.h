/* codegen_priv.h -- what the files of this room share. */
#ifndef CODEGEN_CODEGEN_PRIV_H
#define CODEGEN_CODEGEN_PRIV_H
#include "codegen/codegen.h"

enum { CODEGEN_OPTIONS = 24, CODEGEN_UNITS = 16 };

/* A file of C text and what becomes of it. */
typedef struct codegen_unit {
  codegen_kernel *kernels; /* what it holds */
  uint32_t count;
  base_text text;
  char *stem;            /* path of its files without their endings, by content */
  void *code;            /* loaded */
  codegen_object object; /* with codegen_setting.keep */
  bool written;          /* its source is there */
} codegen_unit;

/* What compilers are started with. */
typedef struct codegen_means {
  const codegen_setting *setting;
  const char *const *options; /* NULL behind the last */
  base_arena *arena;
} codegen_means;

/* ---- cache.c ---- */

/* The path of the unit's files: the cache and a digest of the text, the compiler and its options. NULL: no memory. */
char *codegen_stem(const codegen_unit *unit, const codegen_means *means);
/* Loads the unit's object, if it is in the cache, private, and unharmed. */
void codegen_find(codegen_unit *unit, const codegen_means *means);
/* Seals the object that was made at `made`, and gives it its name in the cache. */
td_status codegen_publish(const char *made, const char *stem, base_arena *arena, td_error *err);

/* ---- compilers.c ---- */

/* Compiles the units that have no code yet, several at once, or waits for who does. `finished` is called with each as
 * it has its code, or with the reason why it has none. */
typedef void (*codegen_finished)(void *user, codegen_unit *unit, td_status status, const td_error *why);
void codegen_compile(codegen_unit *units, uint32_t count, const codegen_means *means, codegen_finished finished,
                     void *user);

/* ---- faults.c ---- */

/* "WHAT, for 2 fused loops: NAME of "NODE", ...; their source is ...", in *err. */
td_status codegen_fail(const codegen_unit *unit, td_status status, const char *what, td_error *err);
/* What a compiler said about the unit in the file at `log_path`: the first complaint, the line of C that it is about,
 * the loop and the node that the line came of; else its first words. Into `text` of `room` bytes; *node: the node, in
 * the unit's text or origins, or NULL. */
void codegen_read_log(const codegen_unit *unit, const char *log_path, char *text, size_t room, base_str *node);
#endif
