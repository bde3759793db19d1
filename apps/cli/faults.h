/* faults.h -- what the commands of treadle-debug do; debug/main.c has their table. */
#ifndef CLI_FAULTS_H
#define CLI_FAULTS_H
#include "cli.h"

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
