/* forms.c -- `--tune`: is a loop of joined operators faster than these one by one, and faster behind the product that
 * makes what it reads than as a step of its own? The model with all loops, with none, and with none behind products run
 * interleaved on the same inputs; the nodes of each loop that takes less time another way are listed; then these forms
 * and the one of the list run interleaved, and the best is kept, by CPU and model, in a file among the user's caches.
 * Forms are within the operators' tolerances of each other, yet may round differently: what was found once stays. */
#include <math.h>
#include <string.h>

#include "common/kept.h"
#include "common/measure.h"
#include "common/threads.h"
#include "open.h"
#include "options.h"
#include "sys/sys.h"

enum { LIST_BYTES = 1 << 16, LEAST_ROUNDS = 4 };
static const double part_gain = 0.95, whole_gain = 0.98; /* of the fused form's time that the other must stay below */
static const double round_ms = 400;

/* ---- the file ---- */

/* What the choice depends on. */
static td_status find_kept(const cli_args *args, const td_load_options *o, app_kept *k, td_error *err) {
  const char *model = args->operands[0];
  uint64_t content = o->seed;
  sys_machine m;
  sys_mapping file;
  td_error none;
  app_threads threads;
  char threads_text[16];
  TRY(cli_threads_of(args, &threads, err));
  snprintf(threads_text, sizeof threads_text, "%u", threads.count);
  sys_machine_read(&m);
  if (sys_file_map(model, &file, &none) == TD_OK) {
    content = base_hash(file.bytes, file.size, 0);
    sys_unmap(&file);
  }
  const char *texts[] = {o->backend,
                         o->isa,
                         o->math,
                         o->precision,
                         o->keep_f32,
                         o->state,
                         o->disabled_passes,
                         o->method,
                         threads.count ? threads_text : NULL,
                         *o->specialise ? o->specialise : NULL};
  snprintf(k->key, sizeof k->key, "%s %u/%u %x; treadle %s; chains; %s %llx;", m.cpu_name, m.cpu_family, m.cpu_model,
           m.isa, td_version(), strncmp(model, "builtin:", 8) == 0 ? model : "", (unsigned long long)content);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const size_t used = strlen(k->key);
    snprintf(k->key + used, sizeof k->key - used, " %s", texts[i] ? texts[i] : "-");
  }
  return app_kept_place(k, "forms", "txt") ? TD_OK : app_no_cache(err);
}

/* ---- measuring ---- */

/* The model in one form. */
typedef struct form {
  td_model *model;
  td_session *session;
  td_profile *profile;
  uint32_t steps;
  double best_ms;
} form; /* without a session: it is the same as another one */

static void close_form(form *f) {
  td_profile_free(f->profile);
  td_session_free(f->session);
  td_model_free(f->model);
}

static td_status open_form(cli_args *args, const td_load_options *options, const char *alone, form *f, td_error *err) {
  td_load_options o = *options;
  td_model_stats stats = {.size = sizeof stats};
  app_feed feed;
  o.alone = alone;
  o.tiered = 0;
  *f = (form){.best_ms = INFINITY};
  TRY(td_model_load(args->operands[0], &o, &f->model, err));
  TRY(cli_open_session(args, f->model, &f->session, err));
  TRY(cli_feed_make(args, f->model, false, &feed, err));
  TRY(app_feed_bind(&feed, f->session, args->arena, err));
  TRY(td_session_run(f->session, err));
  TRY(td_model_get_stats(f->model, &stats, err));
  f->steps = stats.steps;
  return td_profile_new(f->session, NULL, &f->profile, err);
}

/* In turns, so that a slow moment hits all. */
static td_status race(form *forms, uint32_t count, td_error *err) {
  const double start = app_now_ms();
  for (uint32_t i = 0; i < count; i++) forms[i].best_ms = INFINITY;
  for (uint32_t i = 0; i < LEAST_ROUNDS || app_now_ms() - start < round_ms * count; i++)
    for (uint32_t k = 0; k < count; k++) {
      if (!forms[k].session) continue;
      const double before = app_now_ms();
      TRY(td_session_run(forms[k].session, err));
      forms[k].best_ms = fmin(forms[k].best_ms, app_now_ms() - before);
    }
  return TD_OK;
}

/* Is node `name` among those of step `step`? */
static bool stands_for(const form *f, uint32_t step, const td_step *s, const char *name) {
  for (size_t i = 0; i < s->origins; i++)
    if (strcmp(td_session_step_origin(f->session, step, i), name) == 0) return true;
  return false;
}

/* Nanoseconds of the steps of `f` that stand for nodes of step `step` of `joined` alone, which `own` describes. */
static td_status time_unfused(const form *f, const form *joined, uint32_t step, const td_step *own, double *ns,
                              td_error *err) {
  *ns = 0;
  for (uint32_t i = 0; i < f->steps; i++) {
    td_step s = {.size = sizeof s};
    td_profile_step spent = {.size = sizeof spent};
    TRY(td_session_get_step(f->session, i, &s, err));
    bool all = s.origins > 0;
    for (size_t k = 0; k < s.origins && all; k++)
      all = stands_for(joined, step, own, td_session_step_origin(f->session, i, k));
    if (!all) continue;
    TRY(td_profile_get_step(f->profile, i, &spent, err));
    *ns += (double)spent.least_ns;
  }
  return TD_OK;
}

/* Adds the nodes of a step to the list, `before` in front of each; those that do not fit, or have a comma, stay out. */
static void add_nodes(const form *f, uint32_t step, const td_step *s, const char *before, char *list) {
  for (size_t i = 0; i < s->origins; i++) {
    const base_str name = base_node_name(td_session_step_origin(f->session, step, i));
    const size_t used = strlen(list), more = name.length + strlen(before) + 2;
    if (!name.length || memchr(name.at, ',', name.length) || used + more > LIST_BYTES) continue;
    snprintf(list + used, LIST_BYTES - used, "%s%s%.*s", used ? "," : "", before, (int)name.length, name.at);
  }
}

static bool is_loop(const td_step *s) { return strncmp(s->op, "td::fused", 9) == 0; }

/* The first loop of `f` that stands for nodes of step `step` of `joined` alone, which `own` describes. */
static td_status find_loop(const form *f, const form *joined, uint32_t step, const td_step *own, uint32_t *loop,
                           td_step *found, td_error *err) {
  for (*loop = 0; *loop < f->steps; ++*loop) {
    *found = (td_step){.size = sizeof *found};
    TRY(td_session_get_step(f->session, *loop, found, err));
    bool all = is_loop(found) && found->origins;
    for (size_t k = 0; k < found->origins && all; k++)
      all = stands_for(joined, step, own, td_session_step_origin(f->session, *loop, k));
    if (all) break;
  }
  return TD_OK;
}

enum { FUSED, UNFUSED, UNCHAINED, MIXED, FORMS };

/* Lists the nodes of step `step`, a loop of the fused form that `own` describes, if it is faster without. */
static td_status list_loop(const form *forms, uint32_t step, const td_step *own, double limit, char *list,
                           uint32_t *loops, td_error *err) {
  double ns;
  TRY(time_unfused(&forms[UNFUSED], &forms[FUSED], step, own, &ns, err));
  if (ns <= 0 || ns >= limit) return TD_OK;
  add_nodes(&forms[FUSED], step, own, "", list);
  ++*loops;
  return TD_OK;
}

/* The same of the chain of a product: its nodes are faster one by one, or as a loop behind the product, in front of
 * which "chain=" stands. */
static td_status list_chain(const form *forms, uint32_t step, const td_step *own, double limit, char *list,
                            uint32_t *loops, td_error *err) {
  td_step loop;
  uint32_t at;
  double unfused, unchained;
  if (!forms[UNCHAINED].session) return TD_OK;
  TRY(find_loop(&forms[UNCHAINED], &forms[FUSED], step, own, &at, &loop, err));
  if (at == forms[UNCHAINED].steps) return TD_OK; /* no chain */
  TRY(time_unfused(&forms[UNFUSED], &forms[FUSED], step, own, &unfused, err));
  TRY(time_unfused(&forms[UNCHAINED], &forms[FUSED], step, own, &unchained, err));
  const bool single = unfused > 0 && unfused < unchained;
  const double ns = single ? unfused : unchained;
  if (ns <= 0 || ns >= limit) return TD_OK;
  add_nodes(&forms[UNCHAINED], at, &loop, single ? "" : "chain=", list);
  ++*loops;
  return TD_OK;
}

/* Lists the nodes of fused loops that take less time in another form. */
static td_status list_faster(const form *forms, char *list, uint32_t *loops, td_error *err) {
  for (uint32_t i = 0; i < forms[FUSED].steps; i++) {
    td_step s = {.size = sizeof s};
    td_profile_step spent = {.size = sizeof spent};
    TRY(td_session_get_step(forms[FUSED].session, i, &s, err));
    if (s.origins < 2) continue;
    TRY(td_profile_get_step(forms[FUSED].profile, i, &spent, err));
    const double limit = part_gain * (double)spent.least_ns;
    TRY(is_loop(&s) ? list_loop(forms, i, &s, limit, list, loops, err)
                    : list_chain(forms, i, &s, limit, list, loops, err));
  }
  return TD_OK;
}

/* Watching costs each step as much: it would count against forms of many small ones. */
static void stop_profiles(form *forms) {
  for (uint32_t i = 0; i < FORMS; i++) {
    td_profile_free(forms[i].profile);
    forms[i].profile = NULL;
  }
}

/* Measures fused loops against their operators unfused, loop by loop, and then all forms as a whole. */
static td_status compete(cli_args *args, const td_load_options *options, form *forms, uint32_t *count, char *list,
                         td_error *err) {
  uint32_t loops = 0;
  TRY(open_form(args, options, NULL, &forms[FUSED], err));
  TRY(open_form(args, options, "*", &forms[UNFUSED], err));
  TRY(open_form(args, options, "chain=*", &forms[UNCHAINED], err));
  if (forms[UNCHAINED].steps == forms[FUSED].steps) { /* there are no chains */
    close_form(&forms[UNCHAINED]);
    forms[UNCHAINED] = (form){0};
  }
  *count = MIXED;
  TRY(race(forms, *count, err));
  TRY(list_faster(forms, list, &loops, err));
  if (loops) TRY(open_form(args, options, list, &forms[MIXED], err));
  stop_profiles(forms);
  *count = FORMS;
  return race(forms, *count, err);
}

static td_status choose(cli_args *args, const td_load_options *options, char *list, td_error *err) {
  form forms[FORMS] = {0};
  uint32_t count = 0, best = FUSED;
  static const char *const whole[] = {[FUSED] = "", [UNFUSED] = "*", [UNCHAINED] = "chain=*"};
  static const char *const what[] = {[UNFUSED] = "all loops are faster as single operators",
                                     [UNCHAINED] = "loops are faster behind no product",
                                     [MIXED] = "some loops are faster as single operators, or behind no product"};
  const td_status status = compete(args, options, forms, &count, list, err);
  for (uint32_t i = 0; i < count; i++)
    if (forms[i].best_ms < whole_gain * forms[FUSED].best_ms && forms[i].best_ms < forms[best].best_ms) best = i;
  if (status == TD_OK && best == FUSED)
    app_note("%s: loops stay fused: %.4g ms, %.4g ms as single operators", args->operands[0], forms[FUSED].best_ms,
             forms[UNFUSED].best_ms);
  else if (status == TD_OK)
    app_note("%s: %s: %.4g ms instead of %.4g", args->operands[0], what[best], forms[best].best_ms,
             forms[FUSED].best_ms);
  if (best != MIXED) strcpy(list, whole[best]);
  for (uint32_t i = 0; i < FORMS; i++) close_form(&forms[i]);
  return status;
}

td_status cli_tune_forms(cli_args *args, td_load_options *options, td_error *err) {
  app_kept k;
  char *list = base_arena_alloc(args->arena, LIST_BYTES);
  if (!list) return base_no_memory(err, "the forms of loops");
  if (options->isa && strchr(options->isa, ','))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--tune takes one instruction set at a time (--isa)");
  TRY(find_kept(args, options, &k, err));
  if (!app_kept_read(&k, list, LIST_BYTES)) {
    list[0] = 0;
    TRY(choose(args, options, list, err));
    TRY(app_kept_write(&k, list, err));
  }
  options->alone = list;
  return TD_OK;
}
