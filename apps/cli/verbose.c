/* verbose.c -- --verbose: what was compiled, and what ran, a line of fields each on standard error:
 *
 *     treadle,compile,STEP,OPERATOR,KERNEL,NODES,"NODE;NODE"
 *     treadle,run,STEP,OPERATOR,KERNEL,FLOPS,READ,WRITTEN,MS,"NODE","SHAPES"
 *
 * SHAPES are those of operands and results, "f32[1,8] f32[8] -> f32[1,8]". READ and WRITTEN are bytes, constants among
 * those read. A step that runs several times in a run has a line of its own each time. */
#include <string.h>

#include <treadle/experimental.h>

#include "open.h"

/* NAME in quotes that are doubled inside, as in CSV. */
static void put_quoted(const char *name) {
  for (; *name; name++) {
    if (*name == '"') fputc('"', stderr);
    fputc(*name, stderr);
  }
}

static void put_compiled(const td_session *session, uint32_t index, const td_step *step) {
  fprintf(stderr, "treadle,compile,%u,%s,%s,%zu,\"", index, step->op, step->kernel, step->origins);
  for (size_t i = 0; i < step->origins; i++) {
    if (i) fputc(';', stderr);
    put_quoted(td_session_step_origin(session, index, i));
  }
  fputs("\"\n", stderr);
}

static void step_ends(void *user, uint32_t index, uint64_t ns) {
  td_step step = {.size = sizeof step};
  td_error unused;
  if (td_session_get_step(user, index, &step, &unused) != TD_OK || !*step.kernel) return;
  fprintf(stderr, "treadle,run,%u,%s,%s,%.0f,%.0f,%.0f,%.4f,\"", index, step.op, step.kernel, step.flops,
          step.read_bytes + step.const_bytes, step.write_bytes, (double)ns * 1e-6);
  put_quoted(step.name);
  char shapes[1024] = "";
  td_session_step_shapes(user, index, shapes, sizeof shapes, &unused);
  fprintf(stderr, "\",\"%s\"\n", shapes);
}

td_status cli_verbose(const cli_args *args, const td_model *model, td_session *session, td_error *err) {
  uint32_t cursor = 0;
  td_model_stats stats = {.size = sizeof stats};
  TRY(td_model_get_stats(model, &stats, err));
  for (const char *what; (what = cli_next(args, "verbose", &cursor));) {
    const td_observer observer = {.size = sizeof observer, .user = session, .end = step_ends};
    if (strcmp(what, "run") == 0) TRY(td_session_observe(session, &observer, err));
    for (uint32_t i = 0; strcmp(what, "compile") == 0 && i < stats.steps; i++) {
      td_step step = {.size = sizeof step};
      TRY(td_session_get_step(session, i, &step, err));
      if (*step.kernel) put_compiled(session, i, &step);
    }
  }
  return TD_OK;
}
