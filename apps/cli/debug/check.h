/* check.h -- the parts of `treadle check`: finding cases, the skip list, and one case. */
#ifndef CLI_CHECK_H
#define CLI_CHECK_H
#include "cli/cli.h"

typedef struct check_settings {
  const char *backend;         /* NULL: the default */
  const char *isa;             /* NULL: the CPU's */
  const char *math;            /* NULL: the default */
  const char *precision;       /* NULL: the model's */
  td_load_options code;        /* of which those for generated code */
  const char *disabled_passes; /* comma-separated, or NULL */
  double rtol, atol;           /* NaN: the case's own, or the default */
  unsigned limit_s;            /* of one case */
} check_settings;

/* ---- finding (check_find.c) ---- */

typedef struct check_found {
  const char *folder;
  const char *name; /* the folder below the one that was searched */
} check_found;
typedef BASE_VEC(check_found) check_found_vec;

/* Adds the case folders at or below `folder`, sorted by name. A case folder holds case.json, or model.onnx with a
 * test_data_set_*. Links to folders are not followed. */
td_status check_find(const char *folder, base_arena *arena, check_found_vec *found, td_error *err);
/* The entries of `folder` that begin with `prefix`, sorted; numbers by their value. */
td_status check_list(const char *folder, const char *prefix, base_arena *arena, const char ***names, size_t *count,
                     td_error *err);

/* ---- the skip list (check_skips.c) ---- */

typedef struct check_skip {
  const char *pattern, *reason, *owner;
  uint32_t line;
  bool used; /* it matched a case */
} check_skip;
typedef BASE_VEC(check_skip) check_skip_vec;

/* Reads lines `name-or-glob | reason | owner`; # begins a comment line. */
td_status check_read_skips(const char *path, base_arena *arena, check_skip_vec *skips, td_error *err);
/* The first entry for a case, or NULL. A pattern with n slashes is held against the last n + 1 parts of the folder. */
check_skip *check_find_skip(check_skip_vec *skips, const char *folder);

/* ---- one case ---- */

/* Loads, runs and compares every set of the case (check_case.c). TD_OK: it passes; TD_ANSWER_NO: it differs. */
td_status check_case(const char *folder, const check_settings *settings, td_error *err);

typedef struct check_result {
  td_status status;
  double ms;
  td_error err;
} check_result;
/* check_case in a process of its own, so that a crash or an endless loop is a result too (check_child.c). */
void check_case_isolated(const char *folder, const check_settings *settings, check_result *result);
#endif
