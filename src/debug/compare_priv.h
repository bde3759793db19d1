/* compare_priv.h -- the parts of a comparison: distances, the arbiter of rounding, nodes on their own. */
#ifndef DEBUG_COMPARE_PRIV_H
#define DEBUG_COMPARE_PRIV_H
#include "debug/debug.h"

typedef struct debug_tolerance {
  double rtol, atol;
} debug_tolerance;

enum { DEBUG_NOISE_RUNS = 4 };

/* Is what stands between two runs an error, or rounding? Its runs are made when they are first asked for. Start zeroed
 * but for the first four. */
typedef struct debug_arbiter {
  td_comparison *c;
  td_way truth; /* that gave what is expected, with values for all inputs */
  const debug_tolerance *tolerance;
  bool asked;
  bool has_exact, has_noise;
  td_results exact, noise[DEBUG_NOISE_RUNS];
} debug_arbiter;

/* A run with every node's result kept, `got`, and what eager makes of each node when it is given what that run had for
 * its operands: then nothing that happened before, such as a step of a quantisation that flipped, is held against it.
 */
typedef struct debug_alone {
  bool asked, known; /* asked without being known says that there are none to be run */
  td_results got, expected;
  debug_tolerance tolerance; /* of the result that is looked at */
  debug_arbiter arbiter;     /* of `expected` */
} debug_alone;

struct td_comparison {
  base_arena *arena;
  td_comparison_options options;
  debug_tolerance tolerance;
  debug_arbiter outputs, nodes; /* of runs as they are, and with every node's result kept */
  debug_alone alone;
};

/* ---- distances (difference.c) ---- */

/* Name and figures; no verdict yet. Lists by their tensors, the worst figures of all. */
td_difference debug_difference(const td_named_value *got, const td_named_value *expected,
                               const debug_tolerance *tolerance);
/* Is anything outside the tolerance, or of another type? */
bool debug_differs(const td_difference *d);
/* Root of the mean square of a - b over elements that are finite in both; negative: not comparable. */
double debug_distance(const td_named_value *a, const td_named_value *b);
bool debug_is_tensor(const td_named_value *value);

/* ---- runs (compare.c) ---- */

td_status debug_run(td_comparison *c, const td_way *way, td_results *results, td_error *err);
void debug_release(td_comparison *c, td_results *results);

/* ---- rounding (arbiter.c) ---- */

/* What was expected and what came instead differ by more than the tolerance at output `index`. True where that is
 * rounding, which the model's own arithmetic explains: by eager in f64, or by changed inputs (td_comparison). Other
 * types, and numbers that are finite on one side alone, never are. */
bool debug_is_rounding(debug_arbiter *arbiter, const td_results *got, const td_results *expected, size_t index);
/* By f64 alone: noise takes an error for rounding that is no larger than steps that flip. */
bool debug_is_exact_rounding(debug_arbiter *arbiter, const td_results *got, const td_results *expected, size_t index);
/* Makes the runs now, once. */
void debug_arbiter_prepare(debug_arbiter *arbiter);
void debug_arbiter_close(debug_arbiter *arbiter);

/* ---- nodes on their own (alone.c) ---- */

/* NULL: the model's nodes cannot be run so. */
debug_alone *debug_ask_nodes(td_comparison *c);
/* Is the node wrong that makes output `index` of alone->got? `d`: how far it is from what eager makes of the same
 * operands. */
bool debug_alone_differs(debug_alone *alone, size_t index, td_difference *d);
/* Output `index` of `got` differs as `d` says from `expected`, eager's: is that more than rounding (`*rounding`)? Where
 * f64 does not explain it, the nodes are asked; noise only where they do not know. */
bool debug_output_differs(td_comparison *c, const td_difference *d, const td_results *got, const td_results *expected,
                          size_t index, bool *rounding);
void debug_alone_close(td_comparison *c);
#endif
