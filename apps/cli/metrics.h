/* metrics.h -- how far two values are apart. */
#ifndef CLI_METRICS_H
#define CLI_METRICS_H
#include "tolerance.h"

typedef struct cli_metrics {
  int64_t count;        /* elements compared */
  int64_t failed;       /* of these, outside the tolerance */
  int64_t unlike;       /* of these, not finite on one side alone, or of another sign of infinity */
  double largest;       /* largest magnitude of what was expected */
  double absolute;      /* largest difference */
  double relative;      /* largest difference in relation to the larger of the two magnitudes */
  double ulp;           /* largest difference in units of the last place of what was expected, in its type */
  double cosine;        /* of the angle between the two as vectors; 1 where both are zero */
  bool other_type;      /* dtypes or shapes are not the same: nothing else was computed */
  bool finite_expected; /* all that was expected is finite */
  bool finite_got;
} cli_metrics;

/* Tensors of numbers. */
cli_metrics cli_measure_difference(const base_tensor *got, const base_tensor *expected, const cli_tolerance *tolerance);
#endif
