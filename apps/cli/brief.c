/* brief.c -- what `treadle` itself knows of the commands of treadle-debug: enough to list and to start them. */
#include "faults.h"

#define BRIEF(id, ...) const cli_command cli_##id = {__VA_ARGS__, .program = CLI_DEBUG_PROGRAM}

BRIEF(compare, CLI_COMPARE);
BRIEF(bisect, CLI_BISECT);
BRIEF(minify, CLI_MINIFY);
BRIEF(replay, CLI_REPLAY);
BRIEF(repro, CLI_REPRO);
BRIEF(check, CLI_CHECK);
BRIEF(profile, CLI_PROFILE);
BRIEF(bench, CLI_BENCH);
BRIEF(tune, CLI_TUNE);
BRIEF(roofline, CLI_ROOFLINE);
BRIEF(compare_profiles, CLI_COMPARE_PROFILES);
BRIEF(inspect, CLI_INSPECT);

td_status cli_help_rest(cli_args *args, td_error *err) { return cli_become(CLI_DEBUG_PROGRAM, args->words, err); }
