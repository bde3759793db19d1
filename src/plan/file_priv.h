/* file_priv.h -- a saved plan, byte by byte: what save.c writes and load.c reads. All numbers are little-endian, as the
 * memory of every machine that this runs on.
 *
 *     file_head | file_section[section_count] | sections, each at a multiple of 64 bytes
 *
 * Sections of a variant are the tables of its plan_exe, element by element as they lie in memory; those of all variants
 * are the constants (at a multiple of 4096 bytes, so that they are mapped) and a table of them with their checksums. */
#ifndef PLAN_FILE_PRIV_H
#define PLAN_FILE_PRIV_H
#include "plan/plan_priv.h"

#include <stddef.h>

enum {
  FILE_VERSION = 3,
  FILE_ALIGN = 64,
  FILE_PAGE = 4096,
  FILE_VARIANTS = 8 * (1 + PLAN_VARIANTS),
  FILE_ALL = UINT32_MAX
};

static const char file_magic[8] = {'\x89', 'T', 'D', 'L', '\r', '\n', '\x1a', '\n'};

typedef struct file_head {
  char magic[8];
  uint32_t version; /* FILE_VERSION: changes with any struct that is saved */
  uint32_t variants;
  char library[24]; /* version of the library: what kernels expect of packed weights may change with it */
  uint32_t section_count, unused;
  uint64_t file_bytes;
  uint64_t checksum; /* of the head up to here, and of the sections' table */
} file_head;

typedef enum file_kind {
  FILE_FACTS,
  FILE_SLOTS,
  FILE_STEPS,
  FILE_BLOCKS,
  FILE_OPERANDS,
  FILE_FUNCTIONS,
  FILE_INPUTS,
  FILE_OUTPUTS,
  FILE_STATES,
  FILE_INITIALS,
  FILE_GUARDS,
  FILE_SIZES, /* of what is a variant for particular sizes, of the last one before it that is none */
  FILE_NAMES,
  FILE_ORIGINS,
  FILE_PARAMS,
  FILE_DIMS,
  FILE_SYMBOLS, /* texts, each behind a letter: 'd' of one that data defines, 's' of others */
  FILE_OBJECTS, /* machine code: which bytes of the following are an object */
  FILE_CODE,
  FILE_KINDS, /* below: once for each variant; above: once for all */
  FILE_TABLE = FILE_KINDS,
  FILE_CONSTANTS,
  FILE_KINDS_ALL
} file_kind;

typedef struct file_section {
  uint32_t kind;    /* file_kind */
  uint32_t variant; /* FILE_ALL: of all */
  uint32_t each;    /* bytes of an element */
  uint32_t unused;
  uint64_t offset, bytes; /* in the file */
  uint64_t checksum;      /* of the bytes; of the constants 0: they have their own */
} file_section;

/* What is no table of a plan_exe. */
typedef struct file_facts {
  double flops, bytes;
  uint32_t isa, needs; /* see plan_exe */
  uint32_t in_place, aligned_inputs;
  uint32_t backend, unused; /* offset into names */
  char level[16];           /* plan_exe's, for people */
  uint64_t contract;        /* of its machine code */
} file_facts;

/* An object of machine code. */
typedef struct file_object {
  uint64_t offset, bytes; /* in FILE_CODE */
} file_object;

/* A stretch of the constants. */
typedef struct file_constant {
  uint64_t offset, bytes; /* in the section */
  uint64_t checksum;
} file_constant;

/* An element of a constant of strings: bytes of the same section. */
typedef struct file_string {
  uint64_t offset, length;
} file_string;
_Static_assert(sizeof(file_string) == sizeof(td_string), "a constant of strings is as long in memory as in a file");

/* Any BASE_VEC. */
typedef struct file_vec {
  void *at;
  uint32_t count, cap;
} file_vec;

/* Where a table is in a plan_exe. */
typedef struct file_place {
  size_t at;
  uint32_t each;
} file_place;
#define FILE_PLACE(member) \
  { offsetof(plan_exe, member), sizeof *((plan_exe *)0)->member.at }
static const file_place file_places[FILE_KINDS] = {[FILE_FACTS] = {0, sizeof(file_facts)},
                                                   [FILE_SLOTS] = FILE_PLACE(slots),
                                                   [FILE_STEPS] = FILE_PLACE(steps),
                                                   [FILE_BLOCKS] = FILE_PLACE(blocks),
                                                   [FILE_OPERANDS] = FILE_PLACE(operands),
                                                   [FILE_FUNCTIONS] = FILE_PLACE(functions),
                                                   [FILE_INPUTS] = FILE_PLACE(inputs),
                                                   [FILE_OUTPUTS] = FILE_PLACE(outputs),
                                                   [FILE_STATES] = FILE_PLACE(states),
                                                   [FILE_INITIALS] = FILE_PLACE(initials),
                                                   [FILE_GUARDS] = FILE_PLACE(guards),
                                                   [FILE_SIZES] = FILE_PLACE(sizes),
                                                   [FILE_NAMES] = FILE_PLACE(names),
                                                   [FILE_ORIGINS] = FILE_PLACE(origins),
                                                   [FILE_PARAMS] = FILE_PLACE(params),
                                                   [FILE_DIMS] = FILE_PLACE(dims.nodes),
                                                   [FILE_SYMBOLS] = {0, 1},
                                                   [FILE_OBJECTS] = {0, sizeof(file_object)},
                                                   [FILE_CODE] = {0, 1}};
#endif
