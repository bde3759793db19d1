/* sequence_batch.c -- computes requests of sequences: each by the session of its own, or several as one where the model
 * says which dimension of its states counts samples. It does by a name: that of the first dimension of each input,
 * which each state has once ("batch" of h0: f32[1, batch, 64]). States are put together in a session of the version's,
 * and what they have become goes back to those of the sequences. */
#include <string.h>

#include "batch.h"
#include "sequence.h"

/* Bytes of a sequence's state above which it is computed alone: they would be copied there and back at each run, which
 * takes longer than a joined run saves. */
enum { MOST_STATE = 1 << 20 };

/* ---- which dimension ---- */

/* The name of the first dimension of all inputs; NULL: they have none, or different ones. */
static td_status find_name(const td_model *model, const char **name, td_error *err) {
  for (size_t i = 0; i < td_model_input_count(model); i++) {
    td_value_info info = {.size = sizeof info};
    TRY(td_model_input(model, i, &info, err));
    const char *own = strcmp(info.kind, "tensor") == 0 && info.rank > 0 && !info.has_default ? info.symbols[0] : NULL;
    if (!own || (i && strcmp(own, *name) != 0)) {
      *name = NULL;
      return TD_OK;
    }
    *name = own;
  }
  return TD_OK;
}

/* The one dimension of that name; -1: there is none, or several. */
static int find_dim(const td_value_info *state, const char *name) {
  int found = -1;
  if (strcmp(state->kind, "tensor") != 0 || state->dtype == TD_STRING || base_dtype(state->dtype)->bits < 8) return -1;
  for (int d = 0; d < state->rank; d++) {
    if (!state->symbols[d] || strcmp(state->symbols[d], name) != 0) continue;
    if (found >= 0) return -1;
    found = d;
  }
  return found;
}

td_status sequence_find_dims(const td_model *model, base_arena *arena, const uint8_t **dims, td_error *err) {
  const size_t count = td_model_state_count(model);
  const char *name = NULL;
  *dims = NULL;
  if (td_model_input_count(model) <= BATCH_MOST_INPUTS) TRY(find_name(model, &name, err));
  if (!name) return TD_OK;
  uint8_t *found = base_new(arena, uint8_t, count);
  if (!found) return base_no_memory(err, "states");
  for (size_t i = 0; i < count; i++) {
    td_value_info info = {.size = sizeof info};
    TRY(td_model_state(model, i, &info, err));
    const int dim = find_dim(&info, name);
    if (dim < 0) return TD_OK;
    found[i] = (uint8_t)dim;
  }
  *dims = found;
  return TD_OK;
}

/* ---- states together, and apart ---- */

/* A tensor as `blocks` pieces of `bytes` that lie one behind the other: those along dimension `dim`. */
typedef struct pieces {
  size_t blocks, bytes;
} pieces;

static bool find_pieces(const td_tensor *t, uint32_t dim, pieces *out) {
  int64_t blocks = 0, rest = 0;
  out->blocks = out->bytes = 0;
  if (t->rank <= (int32_t)dim || !base_numel((int32_t)dim, t->dims, &blocks) ||
      !base_numel(t->rank - (int32_t)dim, t->dims + dim, &rest) || !base_dtype_bytes(t->dtype, rest, &out->bytes))
    return false;
  out->blocks = (size_t)blocks;
  return true;
}

/* One behind the other along `dim`; they differ in its size alone. */
static td_status join_states(base_arena *arena, const td_tensor *parts, uint32_t count, uint32_t dim, td_tensor *out,
                             td_error *err) {
  size_t row = 0, at = 0;
  pieces p;
  *out = parts[0];
  out->dims[dim] = 0;
  for (uint32_t j = 0; j < count; j++) {
    if (!find_pieces(&parts[j], dim, &p)) return base_no_memory(err, "states");
    out->dims[dim] += parts[j].dims[dim];
    row += p.bytes;
  }
  char *to = out->data = base_arena_alloc_uncleared(arena, row * p.blocks + 1, 64);
  if (!to) return base_no_memory(err, "states");
  for (uint32_t j = 0; j < count; j++) {
    find_pieces(&parts[j], dim, &p);
    for (size_t b = 0; b < p.blocks && p.bytes; b++)
      memcpy(to + b * row + at, (const char *)parts[j].data + b * p.bytes, p.bytes);
    at += p.bytes;
  }
  return TD_OK;
}

/* Those of `rows` from `first` on. */
static td_status part_state(base_arena *arena, const td_tensor *all, uint32_t dim, int64_t first, int64_t rows,
                            td_tensor *out, td_error *err) {
  pieces whole, own;
  *out = *all;
  out->dims[dim] = rows;
  if (!find_pieces(all, dim, &whole) || !find_pieces(out, dim, &own)) return base_no_memory(err, "states");
  char *to = out->data = base_arena_alloc_uncleared(arena, own.bytes * own.blocks + 1, 64);
  if (!to) return base_no_memory(err, "states");
  const size_t before = rows ? own.bytes / (size_t)rows * (size_t)first : 0;
  for (size_t b = 0; b < own.blocks && own.bytes; b++)
    memcpy(to + b * own.bytes, (const char *)all->data + b * whole.bytes + before, own.bytes);
  return TD_OK;
}

/* Has each state of the session so many rows? */
static bool states_have(const serve_version *v, td_session *session, int64_t rows) {
  for (size_t i = 0; i < td_model_state_count(v->model); i++) {
    td_tensor state;
    if (td_session_state(session, i, &state, NULL) != TD_OK || state.rank <= v->state_dims[i] ||
        state.dims[v->state_dims[i]] != rows)
      return false;
  }
  return true;
}

/* Each state of the session, the rows from `first` on. */
static td_status part_states(const serve_version *v, td_session *session, base_arena *arena, int64_t first,
                             int64_t rows, td_tensor *out, td_error *err) {
  for (size_t i = 0; i < td_model_state_count(v->model); i++) {
    td_tensor state;
    TRY(td_session_state(session, i, &state, err));
    TRY(part_state(arena, &state, v->state_dims[i], first, rows, &out[i], err));
  }
  return TD_OK;
}

/* ---- joined ---- */

/* Are both sequences' states alike, but for the dimension that counts, and small enough? */
static bool states_join(const serve_version *v, const serve_sequence *a, const serve_sequence *b) {
  size_t total = 0;
  for (size_t i = 0; i < td_model_state_count(v->model); i++) {
    td_tensor x, y;
    pieces p;
    const uint32_t dim = v->state_dims[i];
    if (td_session_state(serve_session_run(a->session), i, &x, NULL) != TD_OK ||
        td_session_state(serve_session_run(b->session), i, &y, NULL) != TD_OK)
      return false;
    if (x.dtype != y.dtype || x.rank != y.rank || !find_pieces(&x, dim, &p)) return false;
    for (int32_t d = 0; d < x.rank; d++)
      if (d != (int32_t)dim && x.dims[d] != y.dims[d]) return false;
    total += p.blocks * p.bytes;
  }
  return total <= MOST_STATE;
}

/* Gives the session the states of all jobs' sequences. Errors: also where one has other rows than its job's inputs. */
static td_status gather(serve_job **jobs, uint32_t count, td_session *session, td_error *err) {
  const serve_version *v = jobs[0]->version;
  td_tensor parts[SERVE_MOST_BATCH], joined;
  for (size_t i = 0; i < td_model_state_count(v->model); i++) {
    for (uint32_t j = 0; j < count; j++) {
      TRY(td_session_state(serve_session_run(jobs[j]->sequence->session), i, &parts[j], err));
      if (parts[j].dims[v->state_dims[i]] != jobs[j]->inputs[0].dims[0])
        return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "a state has other rows than the inputs");
    }
    TRY(join_states(jobs[0]->arena, parts, count, v->state_dims[i], &joined, err));
    TRY(td_session_set_state(session, i, &joined, err));
  }
  return TD_OK;
}

/* The job's sequence goes on from the rows that a joined run has left of it. A client that has left, or waits no more,
 * has its sequence's state as it was; where memory ends half-way the sequence does, too. */
static td_status scatter(serve_job *job, td_session *session, int64_t first, td_error *err) {
  serve_sequence *s = job->sequence;
  const size_t count = td_model_state_count(s->version->model);
  if (__atomic_load_n(&job->cancel, __ATOMIC_RELAXED)) return TD_CANCELLED;
  if (sys_clock_ns() > job->deadline_ns) return TD_TIMED_OUT;
  td_tensor *own = base_new(job->arena, td_tensor, count);
  if (!own) return base_no_memory(err, "states");
  TRY(part_states(s->version, session, job->arena, first, job->inputs[0].dims[0], own, err));
  for (size_t i = 0; i < count; i++) {
    const td_status status = td_session_set_state(serve_session_run(s->session), i, &own[i], err);
    if (status != TD_OK) s->is_over = true;
    TRY(status);
  }
  return TD_OK;
}

/* ---- what becomes of a request ---- */

/* A run that fails leaves the state as it was. What was computed and cannot be told is lost to the client, who could
 * not know what the state is: the sequence ends by it. `status`: of the run; TD_OK: its sequence's state is that
 * behind the run. */
static void reply(serve_job *job, td_status status, const td_tensor *outputs, td_error *err) {
  serve_sequence *s = job->sequence;
  td_error own = {.offset = -1};
  job->status = 200;
  if (status == TD_OK) {
    job->has_begun = !s->has_begun;
    s->has_begun = true;
    status = job->protocol->write(job, outputs, &own);
    if (status == TD_OK && job->reply.failed) status = base_no_memory(&own, "the reply");
    s->is_over = job->ends || status != TD_OK;
    if (status != TD_OK)
      base_fail(err, status, own.name, -1, "%s; the sequence ends, since its state is ahead of this reply", own.text);
  }
  if (status != TD_OK) serve_fail(job, status, err);
  serve_session_settle(s->session);
}

static void compute_alone(serve_job *job) {
  const serve_version *v = job->version;
  td_error err = {.offset = -1};
  job->is_over = false; /* it may have been that of a batch */
  td_tensor *outputs = base_new(job->arena, td_tensor, td_model_output_count(v->model) + 1);
  td_status status = outputs ? TD_OK : base_no_memory(&err, "outputs");
  if (status == TD_OK)
    status = batch_run(job->version, serve_session_run(job->sequence->session), job->inputs, outputs, &job->cancel,
                       job->deadline_ns, &err);
  reply(job, status, outputs, &err);
}

/* False: they have to be computed alone; no state has changed. */
static bool compute_joined(serve_job **jobs, uint32_t count, td_session *session) {
  serve_version *v = jobs[0]->version;
  const size_t inputs = td_model_input_count(v->model), outputs = td_model_output_count(v->model);
  td_error err = {.offset = -1};
  td_tensor joined[BATCH_MOST_INPUTS];
  td_tensor *all = base_new(jobs[0]->arena, td_tensor, outputs), *own = base_new(jobs[0]->arena, td_tensor, outputs);
  int64_t first = 0;
  if (!all || !own || batch_join_inputs(jobs, count, inputs, joined, &err) != TD_OK) return false;
  const int64_t rows = joined[0].dims[0];
  if (gather(jobs, count, session, &err) != TD_OK) return false;
  if (batch_run_group(jobs, count, session, joined, all, &err) != TD_OK) return false;
  if (!batch_slice(all, own, outputs, rows, 0, 0) || !states_have(v, session, rows)) return false;
  for (uint32_t j = 0; j < count; first += jobs[j++]->inputs[0].dims[0]) {
    const td_status status = scatter(jobs[j], session, first, &err);
    batch_slice(all, own, outputs, rows, first, jobs[j]->inputs[0].dims[0]);
    reply(jobs[j], status, own, &err);
  }
  return true;
}

void sequence_compute(serve_job **jobs, uint32_t count, td_session *session) {
  const serve_version *v = jobs[0]->version;
  const size_t inputs = td_model_input_count(v->model);
  serve_job *group[SERVE_MOST_BATCH], *todo[SERVE_MOST_BATCH];
  uint32_t left = 0;
  for (uint32_t i = 0; i < count; i++)
    if (batch_prepare(jobs[i]) && sequence_open(jobs[i])) todo[left++] = jobs[i];
  while (left) {
    uint32_t joined = 0, others = 0;
    serve_job *head = todo[0];
    for (uint32_t i = 0; i < left; i++) {
      const bool joins = i == 0 || (v->state_dims && batch_joins(head, todo[i], inputs) &&
                                    states_join(v, head->sequence, todo[i]->sequence));
      if (joins) group[joined++] = todo[i];
      else todo[others++] = todo[i];
    }
    if (joined == 1 || !compute_joined(group, joined, session))
      for (uint32_t i = 0; i < joined; i++) compute_alone(group[i]);
    left = others;
  }
}

/* ---- when a version is loaded ---- */

td_status sequence_try_rows(serve_version *v, td_session *session, int64_t rows, const td_tensor *inputs,
                            td_tensor *outputs, base_arena *arena, td_error *err) {
  const size_t count = td_model_state_count(v->model);
  td_tensor parts[SERVE_MOST_BATCH], joined, *own = base_new(arena, td_tensor, count);
  if (!own) return base_no_memory(err, "states");
  for (size_t i = 0; i < count; i++) {
    td_tensor state;
    TRY(td_session_state(session, i, &state, err));
    for (int64_t j = 0; j < rows; j++) parts[j] = state;
    TRY(join_states(arena, parts, (uint32_t)rows, v->state_dims[i], &joined, err));
    TRY(td_session_set_state(session, i, &joined, err));
  }
  TRY(batch_run(v, session, inputs, outputs, NULL, 0, err));
  if (!states_have(v, session, rows)) return base_fail(err, TD_UNSUPPORTED, NULL, -1, "states have other rows");
  for (int64_t j = 0; j < rows; j++) TRY(part_states(v, session, arena, j, 1, own, err));
  return TD_OK;
}
