/* streams.c -- a batch over streams of cores: each stream is a session on a part of a pool's threads, which takes some
 * of the samples and writes their results where they belong. The caller computes the first stream's part itself.
 *
 * What a few samples leave behind stays in the caches of the cores that read it next, and streams meet once in a run
 * instead of once in a step. Results are those of the whole batch: they do not depend on a sample's neighbours. */
#include <string.h>

#include "runtime/runtime.h"
#include "sys/sys.h"

enum { SIZES = 16, TURNS = 3 };

/* What one thread more for the same samples loses, of itself: hand-overs, uneven shares, steps of one thread. */
static const double lost_per_thread = 0.1;

/* `count` streams; made when they are first needed. */
typedef struct layout {
  run_session **sessions;
  run_queue **queues; /* of all but the first */
  uint32_t count;
} layout;

/* What was measured. */
typedef struct choice {
  int64_t samples; /* 0: nothing */
  uint32_t count;
} choice;

struct run_streams {
  td_allocator allocator;
  const plan_exe *plan;
  run_pool *pool;
  base_arena *arena;
  uint32_t most;
  bool fixed;      /* as many as the caller said, where there are samples for them */
  layout *layouts; /* by count, up to the most */
  run_future **futures;
  choice choices[SIZES];
  uint32_t next_choice;
};

/* ---- making ---- */

/* The queue's errors are told by the caller of run_streams_run. */
static td_status tell_later(const td_model *model, td_status status, td_error *err) {
  (void)model;
  (void)err;
  return status;
}

static td_status open_stream(run_streams *s, layout *l, uint32_t threads, td_error *err) {
  const uint32_t i = l->count;
  TRY(run_session_new(s->plan, &s->allocator, s->pool, &l->sessions[i], err));
  l->count++;
  run_session_set_most(l->sessions[i], threads);
  return i ? run_queue_new(l->sessions[i], tell_later, NULL, &l->queues[i], err) : TD_OK;
}

static void close_layout(layout *l) {
  for (uint32_t i = 0; i < l->count; i++) {
    run_queue_free(l->queues[i]);
    run_session_free(l->sessions[i]);
  }
  *l = (layout){0};
}

/* The first streams have one thread more where it does not come out even. */
static td_status find_layout(run_streams *s, uint32_t count, const layout **found, td_error *err) {
  layout *l = &s->layouts[count];
  *found = l;
  if (l->count) return TD_OK;
  const uint32_t threads = run_pool_threads(s->pool), each = threads / count, more = threads % count;
  if (!l->sessions) l->sessions = base_new(s->arena, run_session *, count);
  if (!l->queues) l->queues = base_new(s->arena, run_queue *, count);
  if (!l->sessions || !l->queues) return base_no_memory(err, "streams");
  td_status status = TD_OK;
  while (status == TD_OK && l->count < count) status = open_stream(s, l, each + (l->count < more), err);
  if (status == TD_OK) return TD_OK;
  run_session **sessions = l->sessions;
  run_queue **queues = l->queues;
  close_layout(l);
  memset(queues, 0, count * sizeof(run_queue *));
  l->sessions = sessions;
  l->queues = queues;
  return status;
}

td_status run_streams_new(const plan_exe *plan, run_pool *pool, uint32_t most, const td_allocator *allocator,
                          run_streams **streams, td_error *err) {
  const uint32_t threads = run_pool_threads(pool);
  if (plan->states.count)
    return base_fail(err, TD_UNSUPPORTED, NULL, -1,
                     "the model keeps state from run to run: samples of a batch cannot go to several streams");
  base_arena *arena = base_arena_new(allocator);
  run_streams *s = arena ? base_new(arena, run_streams, 1) : NULL;
  if (s) {
    *s = (run_streams){.allocator = *allocator, .plan = plan, .pool = pool, .arena = arena};
    s->most = most && most < threads ? most : threads;
    s->fixed = most > 0;
    s->layouts = base_new(arena, layout, (size_t)s->most + 1);
    s->futures = base_new(arena, run_future *, s->most);
  }
  if (!s || !s->layouts || !s->futures) {
    base_arena_free(arena);
    return base_no_memory(err, "streams");
  }
  *streams = s;
  return TD_OK;
}

void run_streams_free(run_streams *s) {
  if (!s) return;
  for (uint32_t i = 1; i <= s->most; i++) close_layout(&s->layouts[i]);
  base_arena_free(s->arena);
}

/* ---- how many ---- */

/* The longest stream has that many samples, each of which takes so long on its threads. */
static double cost_of(const run_streams *s, int64_t samples, uint32_t count) {
  const double threads = (double)(run_pool_threads(s->pool) / count);
  return (double)((samples - 1) / count + 1) * (1 + lost_per_thread * (threads - 1)) / threads;
}

/* The next number to be tried. */
static uint32_t next_count(const run_streams *s, uint32_t count) {
  return count * 2 > s->most && count < s->most ? s->most : count * 2;
}

uint32_t run_streams_count(const run_streams *s, int64_t samples) {
  uint32_t best = 1;
  if (s->fixed) return samples < 1 ? 1 : (uint32_t)base_min_i64(s->most, samples);
  for (uint32_t i = 0; i < SIZES; i++)
    if (samples > 0 && s->choices[i].samples == samples) return s->choices[i].count;
  for (uint32_t count = 1; count <= s->most && count <= samples; count = next_count(s, count))
    if (cost_of(s, samples, count) < cost_of(s, samples, best)) best = count;
  return best;
}

/* ---- a run ---- */

static bool is_whole(const run_batch *b, uint32_t input) { return input < 64 && b->whole >> input & 1; }

static bool can_be_cut(const base_tensor *t) {
  return t->rank > 0 && t->dtype != TD_STRING && base_dtype(t->dtype)->bits >= 8 && base_tensor_contiguous(t);
}

static td_status find_samples(const run_streams *s, const run_batch *b, int64_t *samples, td_error *err) {
  *samples = -1;
  if (b->input_count > s->plan->inputs.count)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "%u inputs were given; the model takes %u", b->input_count,
                     s->plan->inputs.count);
  for (uint32_t i = 0; i < b->input_count; i++) {
    const base_tensor *t = &b->inputs[i].tensor;
    if (is_whole(b, i) || b->inputs[i].kind == BASE_NOTHING) continue;
    if (b->inputs[i].kind != BASE_TENSOR || !can_be_cut(t))
      return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "input %u cannot be cut along dimension 0: say that it is whole",
                       i);
    if (*samples >= 0 && t->dims[0] != *samples)
      return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "input %u has %lld samples; others have %lld", i,
                       (long long)t->dims[0], (long long)*samples);
    *samples = t->dims[0];
  }
  if (*samples < 0) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "no input has samples that could be shared out");
  return TD_OK;
}

static td_status check_output(const base_tensor *t, uint32_t i, int64_t samples, td_error *err) {
  if (can_be_cut(t) && (!samples || t->dims[0] % samples == 0)) return TD_OK;
  return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                   "output %u has no memory with the same number of rows for each of %lld samples", i,
                   (long long)samples);
}

/* Samples [first, first + count) of `samples`. */
static base_tensor cut(const base_tensor *t, int64_t samples, int64_t first, int64_t count) {
  base_tensor part = *t;
  const int64_t rows = samples ? t->dims[0] / samples : 0;
  part.dims[0] = rows * count;
  part.data = base_at(t, rows * first * t->strides[0]);
  return part;
}

typedef struct stretch {
  int64_t samples, first, count;
} stretch;

static stretch stretch_of(int64_t samples, uint32_t streams, uint32_t i) {
  const int64_t each = samples / streams, more = samples % streams;
  return (stretch){samples, i * each + base_min_i64(i, more), each + (i < more)};
}

static base_value input_of(const run_batch *b, uint32_t i, stretch part) {
  base_value value = b->inputs[i];
  if (!is_whole(b, i)) value.tensor = cut(&value.tensor, part.samples, part.first, part.count);
  return value;
}

/* What this batch has not got, an earlier one may have had. */
static td_status clear_others(run_streams *s, run_session *session, const run_batch *b, td_error *err) {
  for (uint32_t i = 0; i < s->plan->inputs.count; i++)
    if (i >= b->input_count || b->inputs[i].kind == BASE_NOTHING) TRY(run_clear_input(session, i, err));
  return TD_OK;
}

static td_status start(run_queue *queue, const run_batch *b, stretch part, run_future **future, td_error *err) {
  run_request *r;
  run_future *f = run_queue_take(queue, &r);
  if (!f) return base_no_memory(err, "a run of a stream");
  for (uint32_t i = 0; i < b->input_count; i++) r->inputs[i] = input_of(b, i, part);
  for (uint32_t i = 0; i < b->output_count; i++)
    r->outputs[i] = cut(&b->outputs[i], part.samples, part.first, part.count);
  r->input_count = b->input_count;
  r->output_count = b->output_count;
  r->until = b->until;
  run_queue_put(f);
  *future = f;
  return TD_OK;
}

static td_status set_inputs(run_streams *s, run_session *session, const run_batch *b, stretch part, td_error *err) {
  TRY(clear_others(s, session, b, err));
  for (uint32_t i = 0; i < b->input_count; i++) {
    const base_value value = input_of(b, i, part);
    if (value.kind != BASE_NOTHING) TRY(run_set_input(session, i, &value, err));
  }
  return TD_OK;
}

static td_status run_here(run_streams *s, run_session *session, const run_batch *b, stretch part, td_error *err) {
  td_status status = set_inputs(s, session, b, part, err);
  for (uint32_t i = 0; status == TD_OK && i < b->output_count; i++) {
    const base_tensor memory = cut(&b->outputs[i], part.samples, part.first, part.count);
    status = run_bind_output(session, i, &memory, err);
  }
  if (status == TD_OK) status = run_session_run_until(session, b->until, err);
  for (uint32_t i = 0; i < b->output_count; i++) run_bind_output(session, i, NULL, NULL);
  return status;
}

static td_status run_over(run_streams *s, const run_batch *b, int64_t samples, uint32_t count, td_error *err) {
  const layout *l;
  td_status status = TD_OK;
  uint32_t begun = 1;
  TRY(find_layout(s, count, &l, err));
  while (status == TD_OK && begun < count) {
    status = clear_others(s, l->sessions[begun], b, err);
    if (status != TD_OK) break;
    status = start(l->queues[begun], b, stretch_of(samples, count, begun), &s->futures[begun], err);
    begun += status == TD_OK;
  }
  if (status == TD_OK) status = run_here(s, l->sessions[0], b, stretch_of(samples, count, 0), err);
  for (uint32_t i = 1; i < begun; i++) {
    td_error other;
    if (status != TD_OK) run_future_cancel(s->futures[i]);
    const td_status of = run_future_wait(s->futures[i], 0, &other);
    run_future_free(s->futures[i]);
    if (of == TD_OK || status != TD_OK) continue;
    status = of;
    if (err) *err = other;
  }
  return status;
}

static td_status check(const run_streams *s, const run_batch *b, int64_t *samples, td_error *err) {
  if (b->output_count != s->plan->outputs.count)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "a batch has memory for %u outputs; the model has %u",
                     b->output_count, s->plan->outputs.count);
  TRY(find_samples(s, b, samples, err));
  for (uint32_t i = 0; i < b->output_count; i++) TRY(check_output(&b->outputs[i], i, *samples, err));
  return TD_OK;
}

td_status run_streams_predict(run_streams *s, const run_batch *b, uint32_t index, base_tensor *tensor, bool *known,
                              td_error *err) {
  int64_t samples;
  const layout *l;
  TRY(find_samples(s, b, &samples, err));
  const uint32_t count = run_streams_count(s, samples);
  const stretch part = stretch_of(samples, count, 0);
  TRY(find_layout(s, count, &l, err));
  TRY(set_inputs(s, l->sessions[0], b, part, err));
  TRY(run_predict_output(l->sessions[0], index, tensor, known, err));
  if (!*known) return TD_OK;
  TRY(check_output(tensor, index, part.count, err));
  if (part.count) tensor->dims[0] = tensor->dims[0] / part.count * samples;
  return TD_OK;
}

td_status run_streams_run(run_streams *s, const run_batch *b, td_error *err) {
  int64_t samples;
  TRY(check(s, b, &samples, err));
  return run_over(s, b, samples, run_streams_count(s, samples), err);
}

td_status run_streams_tune(run_streams *s, const run_batch *b, uint32_t *best, td_error *err) {
  int64_t samples;
  uint64_t least = UINT64_MAX;
  TRY(check(s, b, &samples, err));
  *best = run_streams_count(s, samples);
  if (s->fixed) return TD_OK;
  for (uint32_t count = 1; count <= s->most && count <= samples; count = next_count(s, count))
    for (int turn = 0; turn < TURNS; turn++) { /* the first binds sizes, and is not the fastest */
      const uint64_t began = sys_clock_ns();
      TRY(run_over(s, b, samples, count, err));
      const uint64_t took = sys_clock_ns() - began;
      if (took >= least) continue;
      least = took;
      *best = count;
    }
  choice *to = &s->choices[s->next_choice];
  for (uint32_t i = 0; i < SIZES; i++)
    if (s->choices[i].samples == samples) to = &s->choices[i];
  s->next_choice = (s->next_choice + (to == &s->choices[s->next_choice])) % SIZES;
  *to = (choice){samples, *best};
  return TD_OK;
}
