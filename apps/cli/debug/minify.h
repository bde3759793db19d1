/* minify.h -- the parts of `treadle minify`: judging a candidate, the search, and what it leaves behind. */
#ifndef CLI_MINIFY_H
#define CLI_MINIFY_H
#include "trial.h"

/* How a model fails. */
typedef enum minify_kind {
  MINIFY_PASSES,
  MINIFY_INVALID, /* the reference itself does not run: no candidate */
  MINIFY_LOAD,    /* it does not compile */
  MINIFY_RUN,     /* running it is an error */
  MINIFY_SIGNAL,  /* it crashes */
  MINIFY_LATE,    /* it does not end */
  MINIFY_WRONG,   /* its outputs are wrong */
  MINIFY_TYPE,    /* an element type changed on the way: an output has it, or an operator refuses it */
  MINIFY_EXIT     /* a script says so by its exit status */
} minify_kind;

typedef struct minify_verdict {
  minify_kind kind;
  int number;       /* signal, exit status, td_status */
  char output[256]; /* the first that is wrong */
  td_error err;     /* of LOAD and RUN, and of INVALID */
} minify_verdict;

/* A file of a graph, and the values its inputs have. */
typedef struct minify_model {
  const char *path;
  app_named_vec values; /* by name; more than the inputs */
} minify_model;

typedef struct minify {
  cli_args *args;       /* as given */
  cli_args quiet;       /* without the options that say what the first model is given */
  const char *script;   /* --cmd, or NULL */
  FILE *tell;           /* what it is doing: standard error where JSON is asked for */
  bool crash, accuracy; /* what counts alone; neither: how the model fails */
  bool interpreted;     /* candidates run without generated code, because the model fails the same way then */
  cli_tolerance tolerance;
  unsigned limit_s;                  /* of a candidate, */
  size_t per_s;                      /* and a second for so many of its nodes: compiling takes its time; 0: none */
  size_t nodes;                      /* of the candidate that is judged */
  const char *folder, *candidate;    /* of the result; path of a candidate */
  minify_verdict wanted;             /* how the model fails */
  uint32_t judged, known, otherwise; /* candidates: run, seen before, that fail in another way */
  uint32_t step;                     /* of the bases saved so far */
  td_error no_onnx;                  /* why the result has no ONNX form; code TD_OK: it has one */
} minify;

/* ---- judging (minify_judge.c) ---- */

/* What becomes of the model, run in a process of its own. Errors: there is no process. */
td_status minify_judge(minify *m, const minify_model *model, minify_verdict *verdict, td_error *err);
bool minify_same_way(const minify_verdict *a, const minify_verdict *b);
/* "crashes (Segmentation fault)" into `text`; returns it. */
const char *minify_describe(const minify_verdict *v, char *text, size_t size);
/* Values for the inputs of `model`, loaded from its path. */
td_status minify_feed(minify *m, const minify_model *model, app_feed *feed, td_error *err);
/* ---- searching (minify_search.c) ---- */

/* Makes `model` smaller as long as it fails the same way. *nodes: how many are left. */
td_status minify_search(minify *m, minify_model *model, size_t *nodes, td_error *err);

/* ---- the result (minify_result.c) ---- */

td_status minify_write_result(minify *m, const minify_model *model, size_t nodes, td_error *err);
#endif
