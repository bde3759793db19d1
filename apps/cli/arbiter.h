/* arbiter.h -- is what stands between two runs an error, or rounding? */
#ifndef CLI_ARBITER_H
#define CLI_ARBITER_H
#include "trial.h"

enum { CLI_NOISE_RUNS = 4 };

/* Runs that are made when they are first asked for. Start zeroed but for the first four. */
typedef struct cli_arbiter {
  cli_args *args;
  const cli_feed *feed;
  cli_way truth; /* that gave what is expected; its taps count */
  const cli_tolerance *tolerance;
  bool asked;
  bool has_exact, has_noise;
  cli_feed wide; /* the feed in f64 */
  cli_trial exact, noise[CLI_NOISE_RUNS];
} cli_arbiter;

/* What was expected, `expected`, and what came instead, `got`, differ by more than the tolerance at output `index`.
 * True where that is rounding, which the model's own arithmetic explains, by one of two rules:
 *
 *   - against the same model in f64, rms(got - exact) <= m * rms(expected - exact) + rtol / 10 of the magnitude, where
 *     m is 2, or 3 for few elements or narrow types: the rule of PyTorch's own benchmarks;
 *   - rms(got - expected) is at most 3 times what comes out when the inputs are changed in their last places: so single
 *     steps of a dynamic quantisation that flip are not taken for errors.
 *
 * A tolerance of 0 asks for the same bits: nothing is rounding then. Other types, and numbers that are finite on one
 * side alone, never are. */
bool cli_is_rounding(cli_arbiter *arbiter, const cli_trial *got, const cli_trial *expected, size_t index);
/* By the first rule alone: the second takes an error for rounding that is no larger than steps that flip. */
bool cli_is_exact_rounding(cli_arbiter *arbiter, const cli_trial *got, const cli_trial *expected, size_t index);
/* Makes the runs now, once. */
void cli_arbiter_prepare(cli_arbiter *arbiter);
void cli_arbiter_close(cli_arbiter *arbiter);
#endif
