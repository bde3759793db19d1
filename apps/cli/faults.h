/* faults.h -- the commands of treadle-debug: how both programs call them, and what they do. debug/faults.c has their
 * rows, debug/main.c their table. */
#ifndef CLI_FAULTS_H
#define CLI_FAULTS_H
#include "cli.h"

/* Their names, operands and summaries: the beginning of a row. */
#define CLI_COMPARE "compare", "MODEL [MODEL]", "compare two ways to run a model, and find the first node that differs"
#define CLI_BISECT "bisect", "MODEL", "find the pass or kernel that makes a model's outputs wrong"
#define CLI_MINIFY "minify", "MODEL", "find the smallest model that still fails the same way"
#define CLI_REPLAY "replay", "DIR", "run what --debug-dir wrote, as it is or edited"
#define CLI_REPRO "repro", "MODEL", "bundle a model and how it is run, for a bug report"
#define CLI_CHECK "check", "DIR...", "run recorded cases and compare their outputs"
#define CLI_PROFILE "profile", "MODEL", "show where the time of a model goes"
#define CLI_BENCH "bench", "[MODEL]", "measure the latency of warm inferences"
#define CLI_TUNE "tune", "[NUMBER]...", "find the fastest kernel parameters for this machine"
#define CLI_ROOFLINE "roofline", "", "measure the peak arithmetic and bandwidths of this machine"
#define CLI_COMPARE_PROFILES "compare-profiles", "BEFORE AFTER", "show what changed between two profiles"
#define CLI_INSPECT "inspect", "MODEL", "show the graph or the plan of a model"

td_status cli_run_bench(cli_args *args, td_error *err);
td_status cli_run_bisect(cli_args *args, td_error *err);
td_status cli_run_check(cli_args *args, td_error *err);
td_status cli_run_compare(cli_args *args, td_error *err);
td_status cli_run_compare_profiles(cli_args *args, td_error *err);
td_status cli_run_inspect(cli_args *args, td_error *err);
td_status cli_run_minify(cli_args *args, td_error *err);
td_status cli_run_profile(cli_args *args, td_error *err);
td_status cli_run_replay(cli_args *args, td_error *err);
td_status cli_run_repro(cli_args *args, td_error *err);
td_status cli_run_roofline(cli_args *args, td_error *err);
td_status cli_run_tune(cli_args *args, td_error *err);
#endif
