/* trial.c -- one model run in several ways on the same inputs. */
#include <math.h>
#include <string.h>

#include "trial.h"

cli_way cli_way_asked(const cli_args *args) {
  return (cli_way){.disabled_passes = cli_value(args, "disable-passes"),
                   .disabled_kernels = cli_value(args, "disable-kernels")};
}

td_status cli_tolerance_asked(const cli_args *args, cli_tolerance *tolerance, td_error *err) {
  *tolerance = (cli_tolerance){.rtol = 1e-3, .atol = 1e-4, .exact_integers = true};
  TRY(cli_real(args, "rtol", 0, 1e6, &tolerance->rtol, err));
  return cli_real(args, "atol", 0, 1e30, &tolerance->atol, err);
}

static td_status fetch_outputs(cli_args *args, cli_trial *t, td_error *err) {
  t->count = td_model_output_count(t->model);
  t->names = base_new(args->arena, const char *, t->count + 1);
  t->values = base_new(args->arena, base_value, t->count + 1);
  if (!t->names || !t->values) return base_no_memory(err, "outputs");
  for (size_t i = 0; i < t->count; i++) {
    td_value_info info;
    TRY(td_model_output(t->model, i, &info, err));
    t->names[i] = info.name;
    TRY(cli_fetch(t->model, t->session, i, args->arena, &t->values[i], err));
  }
  return TD_OK;
}

static td_status run(cli_args *args, const cli_way *way, cli_feed *feed, cli_trial *t, td_error *err) {
  td_load_options options;
  TRY(cli_load_options(args, &options, err));
  options.backend = way->backend;
  options.disabled_passes = way->disabled_passes;
  options.disabled_kernels = way->disabled_kernels;
  options.taps = way->taps;
  TRY(td_model_load(args->operands[0], &options, &t->model, err));
  if (feed->count == 0) TRY(cli_feed_make(args, t->model, false, feed, err));
  TRY(cli_open_session(args, t->model, &t->session, err));
  TRY(cli_feed_bind(feed, t->session, args->arena, err));
  TRY(td_session_run(t->session, err));
  return fetch_outputs(args, t, err);
}

td_status cli_trial_run(cli_args *args, const cli_way *way, cli_feed *feed, cli_trial *trial, td_error *err) {
  *trial = (cli_trial){0};
  const td_status status = run(args, way, feed, trial, err);
  if (status != TD_OK) cli_trial_close(trial);
  return status;
}

void cli_trial_close(cli_trial *trial) {
  td_session_free(trial->session);
  td_model_free(trial->model);
  *trial = (cli_trial){0};
}

bool cli_parts(const cli_metrics *metrics) { return metrics->other_type || metrics->failed > 0; }

static void join(cli_metrics *all, const cli_metrics *m) {
  all->count += m->count;
  all->failed += m->failed;
  all->unlike += m->unlike;
  all->largest = fmax(all->largest, m->largest);
  all->absolute = fmax(all->absolute, m->absolute);
  all->relative = fmax(all->relative, m->relative);
  all->ulp = fmax(all->ulp, m->ulp);
  all->cosine = fmin(all->cosine, m->cosine);
  all->other_type |= m->other_type;
  all->finite_expected &= m->finite_expected;
  all->finite_got &= m->finite_got;
}

cli_metrics cli_trial_difference(const cli_trial *got, const cli_trial *expected, size_t index,
                                 const cli_tolerance *tolerance) {
  const base_value *a = &got->values[index], *b = &expected->values[index];
  cli_metrics all = {.cosine = 1, .finite_expected = true, .finite_got = true};
  if (a->kind == BASE_TENSOR && b->kind == BASE_TENSOR)
    return cli_measure_difference(&a->tensor, &b->tensor, tolerance);
  all.other_type = a->kind != BASE_LIST || b->kind != BASE_LIST || a->list.count != b->list.count;
  for (int64_t i = 0; !all.other_type && i < a->list.count; i++) {
    const cli_metrics m = cli_measure_difference(&a->list.items[i].tensor, &b->list.items[i].tensor, tolerance);
    join(&all, &m);
  }
  return all;
}
