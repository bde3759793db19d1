/* open.c -- a session of a loaded model and its inputs, by the options of a command. */
#include "open.h"

#include <string.h>

td_status cli_threads_of(const cli_args *args, app_threads *threads, td_error *err) {
  int64_t asked = 0;
  TRY(cli_int(args, "threads", 1, 4096, &asked, err));
  return app_threads_of((uint32_t)asked, threads, err);
}

static void print_to(void *user, const char *text, size_t length) { fwrite(text, 1, length, user); }

td_status cli_open_session(const cli_args *args, const td_model *model, td_session **session, td_error *err) {
  return cli_open_printing_session(args, NULL, model, session, err);
}

td_status cli_open_printing_session(const cli_args *args, FILE *prints, const td_model *model, td_session **session,
                                    td_error *err) {
  app_threads threads;
  int64_t interop = 0;
  TRY(cli_threads_of(args, &threads, err));
  TRY(cli_int(args, "interop-threads", 1, 1024, &interop, err));
  td_session_options options = {.size = sizeof options, .threads = threads.count, .interop_threads = (uint32_t)interop};
  if (prints) {
    options.print = print_to;
    options.print_user = prints;
  }
  return td_session_new(model, &options, session, err);
}

td_status cli_check_fault(const cli_args *args, const td_model *model, const td_session *session, td_error *err) {
  const char *fault = cli_value(args, "inject");
  td_model_stats stats = {.size = sizeof stats};
  if (!fault || cli_value(args, "disable-kernels") || cli_value(args, "disable-passes")) return TD_OK;
  TRY(td_model_get_stats(model, &stats, err));
  for (size_t i = 0; i < stats.steps; i++) {
    td_step step = {.size = sizeof step};
    TRY(td_session_get_step(session, i, &step, err));
    if (strcmp(step.op, "test::fault") == 0) return TD_OK;
  }
  return base_fail(
      err, TD_BAD_ARGUMENT, NULL, -1,
      "--inject %s puts in nothing: no kernel of the compiled graph computes such an operator (or node, or "
      "type); `treadle inspect --stage plan` shows what there is",
      fault);
}

/* ---- inputs ---- */

static td_status all_of(const cli_args *args, const char *option, app_words *words, td_error *err) {
  uint32_t cursor = 0;
  for (const char *text; (text = cli_next(args, option, &cursor));) {
    const char **to = base_vec_push(args->arena, words);
    if (!to) return base_no_memory(err, "inputs");
    *to = text;
  }
  return TD_OK;
}

td_status cli_inputs(const cli_args *args, app_inputs *asked, td_error *err) {
  int64_t seed = 0;
  *asked = (app_inputs){.model = args->subject, .preprocess = cli_value(args, "preprocess")};
  TRY(cli_int(args, "seed", 0, INT64_MAX, &seed, err));
  TRY(cli_int(args, "batch", 1, INT32_MAX, &asked->batch, err));
  asked->seed = (uint64_t)seed;
  TRY(all_of(args, "input", &asked->values, err));
  return all_of(args, "shape", &asked->shapes, err);
}

td_status cli_feed_make(const cli_args *args, const td_model *model, bool notes, app_feed *feed, td_error *err) {
  app_inputs asked;
  TRY(cli_inputs(args, &asked, err));
  return app_feed_make(&asked, args->arena, model, notes, feed, err);
}
