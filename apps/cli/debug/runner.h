/* runner.h -- what <treadle/debug.h> calls to have the model of a command run. */
#ifndef CLI_RUNNER_H
#define CLI_RUNNER_H
#include <treadle/debug.h>

#include "trial.h"

/* The ways by td_side: TD_SIDE_EAGER needs not be set. What a search asks for comes on top of them. */
typedef struct cli_runner {
  cli_args *args;
  app_feed *feed; /* has been made */
  cli_way ways[TD_SIDE_JUDGED + 1];
} cli_runner;

/* A comparison of the runner's ways, which lives as long. `other_nodes`: as in td_comparison_options. */
td_status cli_runner_compare(cli_runner *runner, const cli_tolerance *tolerance, bool other_nodes,
                             td_comparison **comparison, td_error *err);
/* The outputs of a trial, in the command's arena, borrowed from it. */
td_status cli_results_of(cli_args *args, const cli_trial *trial, td_results *results, td_error *err);
#endif
