/* suite.h -- layers of the benchmark models, one at a time, each held against the roofline. */
#ifndef CLI_SUITE_H
#define CLI_SUITE_H
#include "bench.h"

/* ---- the lines (suite_lines.c) ---- */

/* A line of bench/shapes/SUITE.txt: NAME OPERATOR SHAPE [KEY=VALUE]... */
typedef struct suite_line {
  const char *suite, *name;
  const char *layer; /* the rest of the line, as builtin:layer: takes it */
} suite_line;
typedef BASE_VEC(suite_line) suite_lines;

/* The lines of suite `suite`, "all" of them, or those of the file at `path` if that is not NULL. */
td_status suite_read(base_arena *arena, const char *suite, const char *path, suite_lines *lines, td_error *err);

/* Shares of the roofline that rows reached before, by suite and name: lines SUITE NAME SHARE. */
typedef struct suite_share {
  const char *suite, *name;
  double share;
} suite_share;
typedef BASE_VEC(suite_share) suite_shares;
td_status suite_read_shares(base_arena *arena, const char *path, suite_shares *shares, td_error *err);
/* 0: the row is not there. */
double suite_find_share(const suite_shares *shares, const suite_line *line);

/* ---- the runs (suite.c) ---- */

/* `treadle bench --suite`. TD_ANSWER_NO: a row fell far below its share of the file after --expect. */
td_status suite_run(cli_args *args, td_error *err);
#endif
