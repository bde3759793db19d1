/* debug.h -- finding what is wrong in a model, over callbacks: the caller runs the model, the library says in which
 * ways, and judges what comes out. `treadle compare`, `bisect` and `minify` are users of it, and so is treadle.debug in
 * Python. Without an ABI promise, as experimental.h; otherwise the rules of treadle.h apply. */
#ifndef TREADLE_DEBUG_H
#define TREADLE_DEBUG_H
#include <treadle/treadle.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- comparing two ways to run a model --------------------------------------------------------------------------- */

/* A value and its name. */
typedef struct td_named_value {
  const char *name;
  const td_tensor *items; /* of a tensor: itself; of a list: its tensors */
  size_t count;           /* of `items` */
  int32_t is_list;        /* 1: a list, or an optional that is empty */
} td_named_value;

/* What a run gave, in the order of the model's outputs. */
typedef struct td_results {
  size_t size; /* sizeof(td_results), set by the library */
  const td_named_value *values;
  size_t count;
  void *owner; /* the caller's, for `release` */
} td_results;

typedef enum td_side {
  TD_SIDE_EAGER,    /* backend "eager": the truth about nodes */
  TD_SIDE_EXPECTED, /* the way that is believed; often eager, too */
  TD_SIDE_JUDGED    /* the way that is looked at */
} td_side;

/* How a run is asked for. Fields of the same names are those of td_load_options. */
typedef struct td_way {
  size_t size; /* sizeof(td_way), set by the library */
  td_side side;
  const char *taps;
  int32_t float64;
  int32_t tapped_inputs;
  /* Values for inputs by name, in place of those that the caller has; NULL: none. The first `own_count` are for the
   * model's own inputs, the others for those that `tapped_inputs` appended. */
  const td_named_value *inputs;
  size_t input_count, own_count;
} td_way;

typedef struct td_comparison_options {
  size_t size; /* sizeof(td_comparison_options) */
  void *user;
  /* Loads the model that way, runs it, and lends what came out until `release`, which is not called after an error. */
  td_status (*run)(void *user, const td_way *way, td_results *results, td_error *err);
  void (*release)(void *user, td_results *results);
  /* Differences up to atol + rtol * |expected| pass. Both 0: bits must be the same, nothing is rounding. */
  double rtol, atol;
  const td_named_value *inputs; /* that runs have, `input_count`: borrowed until td_comparison_free */
  size_t input_count;
  int32_t other_nodes; /* 1: the expected side is not eager of the same model: nodes cannot be judged one by one */
} td_comparison_options;

/* The difference of two values of one name. */
typedef struct td_difference {
  size_t size; /* sizeof(td_difference), set by the library */
  const char *name;
  const char *verdict; /* "same", "rounding", "differs", "not finite" (on one side alone), "other type" */
  int32_t fails;       /* 1: it is more than rounding */
  int64_t count;       /* elements compared */
  int64_t failed;      /* of these, outside the tolerance */
  int64_t unlike;      /* of these, not finite on one side alone, or infinities of other signs */
  double largest;      /* largest magnitude of what was expected */
  double absolute;     /* largest difference */
  double relative;     /* largest difference relative to the larger of the two magnitudes */
  double ulp;          /* largest difference in units in the last place of what was expected, in its type */
  double cosine;       /* of the angle between the two as vectors; 1 where both are zero */
  int32_t other_type;  /* 1: dtypes or shapes are not the same; no figure was computed */
} td_difference;

/* Gets one difference after the other; it is borrowed for the call. */
typedef void (*td_difference_fn)(void *user, const td_difference *difference);

/* Two ways, and the runs that tell errors from rounding, made when they are first needed:
 *
 *   - eager in f64: rms(got - exact) may be 2 times rms(expected - exact), or 3 times for few elements or narrow types
 *     (the rule of PyTorch's benchmarks);
 *   - each node on eager, alone, with the operands that it had in the judged run: then steps of a quantisation that
 *     flipped are told from errors;
 *   - where nodes cannot be run so: eager on inputs that are changed in their last places; rms(got - expected) may be 3
 *     times what that changes.
 *
 * One caller at a time. */
typedef struct td_comparison td_comparison;
TD_API td_status td_comparison_new(const td_comparison_options *options, td_comparison **comparison, td_error *err);
TD_API void td_comparison_free(td_comparison *comparison); /* NULL is allowed */
/* Makes the runs now that eager's rounding is judged by, once: before a fork, say. */
TD_API td_status td_comparison_prepare(td_comparison *comparison, td_error *err);

/* Judges the results of a run of TD_SIDE_JUDGED, as the model is, output by output. `recorded`: they are held against
 * that, made by somebody else, while `expected` is eager's; NULL: they are held against `expected`. `tell` may be NULL.
 * `*differs`: 1 where one of them fails. Errors: TD_BAD_ARGUMENT where there are not as many of each. */
TD_API td_status td_comparison_outputs(td_comparison *comparison, const td_results *got, const td_results *expected,
                                       const td_results *recorded, td_difference_fn tell, void *user, int32_t *differs,
                                       td_error *err);

/* The first node, in the order of the graph, whose results differ between TD_SIDE_EXPECTED and TD_SIDE_JUDGED. Both are
 * run with every node's result kept ("*"). Where all agree then although the outputs do not (`differs`), the fault
 * needs nodes to be fused, which outputs between them prevent: then one result at a time is kept, by halves, which
 * assumes that later nodes stay wrong after the first one does, and `*fused` is 1. `outputs`: how many the model has.
 * `tell` (may be NULL) gets each node of the first two runs. TD_ANSWER_NO, with `err` not filled: there is no such
 * node. found->name lives as long as the comparison. */
TD_API td_status td_comparison_nodes(td_comparison *comparison, size_t outputs, int32_t differs, td_difference_fn tell,
                                     void *user, td_difference *found, int32_t *fused, td_error *err);

/* ---- which pass, which kernel ------------------------------------------------------------------------------------ */

typedef struct td_bisection {
  size_t size; /* sizeof(td_bisection) */
  void *user;
  /* Is the model wrong with these passes and kernels disabled (comma-separated names, or NULL)? What does not load or
   * run, crashes, or does not end is wrong, too. */
  td_status (*differs)(void *user, const char *passes, const char *kernels, int32_t *differs, td_error *err);
  const char *disabled_passes, *disabled_kernels; /* in every run; NULL: none */
  const char *passes;  /* all that there are, in the order in which they run, comma-separated */
  const char *kernels; /* those that the model uses, comma-separated */
  /* The answers, "" where there is none; room for as many bytes as `passes` and `kernels` have, with their NUL. */
  char *pass;      /* the first with which the model is wrong while all before it run, and none behind it */
  char *culprits;  /* kernels that together are wrong while no others run, comma-separated */
  uint32_t trials; /* set: calls of `differs` */
} td_bisection;
/* Finds the pass, and the kernel, that makes a wrong model wrong. Passes are halved; kernels, which do not depend on
 * one another, are halved as long as one half is enough. TD_ANSWER_NO, with `err` not filled: the model is not wrong as
 * it is. Errors: those of `differs`. */
TD_API td_status td_bisect(td_bisection *bisection, td_error *err);

/* ---- the smallest graph that still fails ------------------------------------------------------------------------- */

/* What the search has to know of a graph. */
typedef struct td_minify_graph {
  size_t size;                 /* sizeof(td_minify_graph), set by the library */
  size_t node_count;           /* td_cut.node_count */
  const td_value_info *inputs; /* of the graph */
  size_t input_count;
  const td_value_info *values; /* all tensors that a run of it had, by name, with the sizes that they had */
  size_t value_count;
} td_minify_graph;

typedef struct td_minification {
  size_t size; /* sizeof(td_minification) */
  void *user;
  /* Opens graph `id`, of which parts are asked for from here on: 0 is the whole model, others are what `settle` made.
   * What `graph` points to is borrowed until the next call of `open`. */
  td_status (*open)(void *user, uint32_t id, td_minify_graph *graph, td_error *err);
  /* Does the part fail as the whole model does? td_model_save_graph with `cut` makes it, and sets cut->keep to what is
   * kept; what the nodes read and no node of the part makes gets the value that eager gave it. What cannot be made, or
   * fails in another way, does not. `output` (256 bytes): the first output that is wrong; "": none is. */
  td_status (*fails)(void *user, td_cut *cut, int32_t *same, char *output, td_error *err);
  /* The part becomes graph `id`. */
  td_status (*settle)(void *user, td_cut *cut, uint32_t id, td_error *err);
  /* May be NULL: a strategy has made the part smaller or simpler. */
  void (*tell)(void *user, const char *strategy, size_t granularity, size_t before, size_t after);
  const char *output; /* of the whole model, as `fails` has it */
  uint32_t graph;     /* set: the smallest */
  size_t nodes;       /* set: how many are left */
} td_minification;
/* What the cut makes of a value: other sizes, another type. Into `data`, which is dense, or NULL: only `to` is set,
 * whose `data` is that. */
TD_API td_status td_cut_value(const td_cut *cut, const td_tensor *from, void *data, td_tensor *to, td_error *err);
/* Makes the graph smaller as long as it fails: every set of nodes is a candidate, so delta debugging (Zeller,
 * Hildebrandt 2002) needs no luck to find one that runs. Errors: those of the callbacks. */
TD_API td_status td_minify(td_minification *minification, td_error *err);

#ifdef __cplusplus
}
#endif
#endif
