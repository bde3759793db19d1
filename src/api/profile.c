/* profile.c -- profiles of sessions: the public face of the room of that name. */
#include <treadle/experimental.h>

#include <string.h>

#include "api/api_priv.h"
#include "profile/profile.h"

enum { DEFAULT_RECORDS = 65536, MOST_RECORDS = 1 << 24 };

struct td_profile {
  td_session *session;
  prof_recorder *recorder;
  td_limits limits;
  bool limited;
};

static td_status start_recorder(td_profile *p, const td_profile_options *o, td_error *err) {
  const prof_options options = {.steps = p->session->model->stats.steps,
                                .threads = run_session_threads(p->session->run),
                                .crew = run_session_crew(p->session->run),
                                .records = o->records ? o->records : DEFAULT_RECORDS,
                                .skip = o->skip,
                                .wait = o->wait,
                                .warmup = o->warmup,
                                .active = o->active,
                                .repeat = o->repeat};
  if (options.records > MOST_RECORDS)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "at most %d records are kept per thread", MOST_RECORDS);
  p->recorder = prof_recorder_new(&p->session->allocator, &options);
  if (!p->recorder) return base_no_memory(err, "a profile");
  if (o->roofline) {
    p->limits = prof_limits_of(o->roofline, o->isa, options.threads);
    p->limited = true;
  }
  const td_observer observer = prof_observer(p->recorder);
  return td_session_observe(p->session, &observer, err);
}

td_status td_profile_new(td_session *session, const td_profile_options *options, td_profile **profile, td_error *err) {
  td_profile_options o = {0};
  if (!session || !profile)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_profile_new needs a session and a place for the profile");
  TRY(api_read_options(&o, sizeof o, options, err));
  td_profile *p = base_alloc(&session->allocator, sizeof *p);
  if (!p) return base_no_memory(err, "a profile");
  *p = (td_profile){.session = session};
  const td_status status = start_recorder(p, &o, err);
  if (status != TD_OK) {
    prof_recorder_free(p->recorder);
    base_free(&session->allocator, p, sizeof *p);
    return status;
  }
  *profile = p;
  return TD_OK;
}

void td_profile_free(td_profile *profile) {
  if (!profile) return;
  const td_observer own = prof_observer(profile->recorder), now = run_observer(profile->session->run);
  const bool is_another = now.part == own.part && now.user != own.user; /* which goes on */
  if (!is_another) td_session_observe(profile->session, NULL, NULL);
  prof_recorder_free(profile->recorder);
  base_free(&profile->session->allocator, profile, sizeof *profile);
}

td_status td_profile_clear(td_profile *profile, td_error *err) {
  if (!profile) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_profile_clear needs a profile");
  prof_recorder_clear(profile->recorder);
  return TD_OK;
}

/* ---- reading ---- */

static void print_dims(const void *user, uint32_t step, base_text *text) { api_print_dims(user, step, text); }
static void print_types(const void *user, uint32_t step, base_text *text) { api_print_types(user, step, text); }

static const char *origin(const void *user, uint32_t step, size_t number) {
  return td_session_step_origin(user, step, number);
}

/* Everything that a form needs to know of the model; `steps` belongs to the caller, who frees it. */
static td_status make_source(const td_profile *p, prof_source *source, td_step *steps, td_error *err) {
  const td_session *session = p->session;
  const td_model *model = session->model;
  for (uint32_t i = 0; i < model->stats.steps; i++) {
    steps[i].size = sizeof steps[i];
    TRY(td_session_get_step(session, i, &steps[i], err));
  }
  td_session_stats stats = {.size = sizeof stats};
  TRY(td_session_get_stats(session, &stats, err));
  *source = (prof_source){.recorder = p->recorder,
                          .steps = steps,
                          .limits = p->limited ? &p->limits : NULL,
                          .footprint = (double)model->stats.weights_bytes + (double)stats.arena_bytes,
                          .model = model->path ? model->path : "model",
                          .machine = "",
                          .print_dims = print_dims,
                          .print_types = print_types,
                          .arena_bytes = stats.arena_bytes,
                          .arena_lower = stats.arena_lower,
                          .origin = origin,
                          .user = session};
  return TD_OK;
}

/* Places in the arena, of slots with memory of their own. NULL: out of memory. */
static prof_block *make_blocks(const td_session *session, base_arena *arena, uint32_t *count) {
  const plan_exe *plan = run_plan_in_use(session->run);
  const uint32_t before = api_first_step(session);
  const plan_binding *b = run_active_binding(session->run);
  prof_block *blocks = base_new(arena, prof_block, plan->slots.count + (size_t)1);
  *count = 0;
  for (uint32_t i = 0; blocks && b && i < plan->slots.count; i++) {
    const plan_slot *slot = &plan->slots.at[i];
    const size_t bytes = slot->place == PLAN_ARENA && slot->root == i && slot->part_of == PLAN_NONE
                             ? base_tensor_bytes(&b->tensors[i])
                             : 0;
    if (bytes) blocks[(*count)++] = (prof_block){before + slot->first, before + slot->last, b->offsets[i], bytes};
  }
  return blocks;
}

typedef td_status (*use_fn)(const prof_source *source, void *user, td_error *err);

static td_status with_arena(const td_profile *p, use_fn use, void *user, base_arena *arena, td_error *err) {
  prof_source source;
  uint32_t blocks;
  sys_machine machine;
  td_step *steps = base_new(arena, td_step, p->session->model->stats.steps + (size_t)1);
  if (!steps) return base_no_memory(err, "a profile");
  TRY(make_source(p, &source, steps, err));
  source.blocks = make_blocks(p->session, arena, &blocks);
  if (!source.blocks) return base_no_memory(err, "a profile");
  source.block_count = blocks;
  sys_machine_read(&machine);
  source.machine = machine.cpu_name;
  return use(&source, user, err);
}

static td_status with_source(const td_profile *p, use_fn use, void *user, td_error *err) {
  base_arena *arena = base_arena_new(&p->session->allocator);
  if (!arena) return base_no_memory(err, "a profile");
  const td_status status = with_arena(p, use, user, arena, err);
  base_arena_free(arena);
  return status;
}

static td_status take_totals(const prof_source *source, void *user, td_error *err) {
  (void)err;
  *(td_profile_totals *)user = prof_totals(source);
  return TD_OK;
}

td_status td_profile_get_totals(const td_profile *profile, td_profile_totals *totals, td_error *err) {
  if (!profile || !totals)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_profile_get_totals needs a profile and a struct");
  td_profile_totals all;
  TRY(with_source(profile, take_totals, &all, err));
  return api_write_stats(totals, &all, sizeof all, err);
}

td_status td_profile_get_step(const td_profile *profile, size_t index, td_profile_step *step, td_error *err) {
  if (!profile || !step)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_profile_get_step needs a profile and a struct");
  const uint32_t count = profile->session->model->stats.steps;
  if (index >= count)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there is no step %zu; the model has %u", index, count);
  const td_profile_step recorded = prof_step(profile->recorder, (uint32_t)index);
  return api_write_stats(step, &recorded, sizeof recorded, err);
}

const char *td_class_of(const char *op) { return prof_class_of(op); }

typedef struct writing {
  td_profile_view view;
  const td_allocator *allocator;
  td_write_fn write;
  void *user;
} writing;

static td_status write_all(const prof_source *source, void *user, td_error *err) {
  const writing *w = user;
  return prof_write(source, &w->view, w->allocator, w->write, w->user, err);
}

td_status td_profile_write(const td_profile *profile, const td_profile_view *view, td_write_fn write, void *user,
                           td_error *err) {
  if (!profile || !write)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_profile_write needs a profile and a function that takes text");
  writing w = {.allocator = &profile->session->allocator, .write = write, .user = user};
  TRY(api_read_options(&w.view, sizeof w.view, view, err));
  return with_source(profile, write_all, &w, err);
}
