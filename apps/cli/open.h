/* open.h -- a session of a loaded model and its inputs, by the options of a command. */
#ifndef CLI_OPEN_H
#define CLI_OPEN_H
#include "cli.h"
#include "common/feed.h"
#include "common/session.h"
#include "common/threads.h"
#include "common/values.h"

/* By --threads and the environment. */
td_status cli_threads_of(const cli_args *args, app_threads *threads, td_error *err);
td_status cli_open_session(const cli_args *args, const td_model *model, td_session **session, td_error *err);
/* The same where what the model prints goes to `prints`; NULL: nowhere. */
td_status cli_open_printing_session(const cli_args *args, FILE *prints, const td_model *model, td_session **session,
                                    td_error *err);
/* TD_BAD_ARGUMENT: --inject asks for a fault that is nowhere in the compiled model, though no kernel or pass is left
 * out. */
td_status cli_check_fault(const cli_args *args, const td_model *model, const td_session *session, td_error *err);
/* Prints what --verbose asks for, now and with every run (verbose.c). */
td_status cli_verbose(const cli_args *args, const td_model *model, td_session *session, td_error *err);
/* What --input, --shape, --preprocess, --batch and --seed say. */
td_status cli_inputs(const cli_args *args, app_inputs *asked, td_error *err);
/* The inputs of a run that they make. */
td_status cli_feed_make(const cli_args *args, const td_model *model, bool notes, app_feed *feed, td_error *err);
#endif
