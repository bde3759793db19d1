/* file.h -- plans in files: saved as they are, opened without being believed (save.c, load.c). */
#ifndef PLAN_FILE_H
#define PLAN_FILE_H
#include "plan/plan.h"

typedef struct plan_piece {
  const void *at;
  size_t bytes;
} plan_piece;
typedef struct plan_image {
  BASE_VEC(plan_piece) pieces; /* of a file, one after the other */
  uint64_t bytes;
} plan_image;
/* The file that holds these variants of a plan, with their objects, which must outlive the image, as must the arena.
 * Equal constants are stored once. `library`: the version of who saves. */
td_status plan_save(const plan_exe *const *plans, uint32_t count, const char *library, base_arena *arena,
                    plan_image *image, td_error *err);

typedef struct plan_source {
  const void *bytes; /* must outlive the plan, whose constants stay there */
  size_t size;
  const char *file;    /* for errors */
  const char *library; /* the version of who loads */
  uint32_t isa;        /* BASE_ISA_* that may be used: of the variants that need no more, the one that needs most */
  bool trusted;        /* machine code in it is wanted; else its functions are kernels that interpret */
  uint64_t contract;   /* that machine code must have been made for */
} plan_source;
bool plan_is_saved(const void *bytes, size_t size); /* do they begin like a saved plan? */
/* The plan in a file, with its variants: tables are copied and their checksums compared; plan_check_constants compares
 * those of the constants. plan_complete is still to come for each, and plan_check_variant for the variants. Errors:
 * TD_BAD_FILE with the byte offset, TD_UNSUPPORTED where the CPU lacks what all variants need. */
td_status plan_open(const plan_source *source, const td_allocator *allocator, plan_exe **plan, td_error *err);
/* Compares the checksums of a loaded plan's constants, its variants' too, once: whoever makes something of them (a
 * session, another file) asks first. Any thread may. TD_BAD_FILE with the byte offset. */
td_status plan_check_constants(const plan_exe *plan, td_error *err);
/* Makes a loaded plan one that can run: links its functions, finds roots, captures and lifetimes, verifies. */
td_status plan_complete(plan_exe *plan, const plan_symbols *symbols, td_error *err);
#endif
