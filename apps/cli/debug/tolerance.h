/* tolerance.h -- whether two values are the same within a tolerance, and where they differ most if not. */
#ifndef CLI_TOLERANCE_H
#define CLI_TOLERANCE_H
#include "base/base.h"

/* Passing: |got - expected| <= atol + rtol * |expected|, and NaN where NaN is expected. */
typedef struct cli_tolerance {
  double rtol, atol;
  bool exact_integers; /* integers must be equal; otherwise they have the tolerance too. bool and strings always must */
} cli_tolerance;

/* TD_OK, or TD_ANSWER_NO with a sentence that names the element that differs most. An optional (a list here) may be
 * expected as nothing, a tensor, or a list. */
td_status cli_within(const base_value *got, const base_value *expected, const cli_tolerance *tolerance, td_error *err);
#endif
