/* batch.c -- computes jobs of one version. Those whose tensors differ in the first size alone run as one; what each
 * gets is the same bytes as alone, since the engine's sums do not depend on neighbours. A job that is wrong fails
 * alone. */
#include "batch.h"

#include <string.h>

enum { TRIALS = 3, LEAST_TRIAL_NS = 10000000 /* three runs of a small model may all be disturbed */, OPEN_SIZE = 64 };

static td_status read_outputs(const td_model *model, td_session *session, td_tensor *outputs, td_error *err) {
  for (size_t i = 0; i < td_model_output_count(model); i++) {
    td_value_info info = {.size = sizeof info};
    outputs[i] = (td_tensor){.dtype = TD_INVALID};
    TRY(td_model_output(model, i, &info, err));
    if (strcmp(info.kind, "tensor") == 0) TRY(td_session_output(session, i, &outputs[i], err));
  }
  return TD_OK;
}

/* What the session had of state is gone, whatever became of the request before. */
static td_status reset(const td_model *model, td_session *session, td_error *err) {
  return td_model_state_count(model) ? td_session_reset(session, err) : TD_OK;
}

td_status batch_run(serve_version *v, td_session *session, const td_tensor *inputs, td_tensor *outputs,
                    const int32_t *cancel, uint64_t deadline_ns, td_error *err) {
  const td_run_options limits = {.size = sizeof limits, .deadline_ns = deadline_ns, .cancel = cancel};
  for (size_t i = 0; i < td_model_input_count(v->model); i++) TRY(td_session_clear_input(session, i, err));
  for (size_t i = 0; i < td_model_input_count(v->model); i++)
    if (inputs[i].data) TRY(td_session_set_input(session, i, &inputs[i], err));
  TRY(td_session_run_with(session, &limits, err));
  return read_outputs(v->model, session, outputs, err);
}

static void compute_alone(serve_job *job, td_session *session) {
  td_error err = {.offset = -1};
  job->is_over = false; /* it may have been that of a batch */
  td_tensor *outputs = base_new(job->arena, td_tensor, td_model_output_count(job->version->model) + 1);
  td_status status = outputs ? reset(job->version->model, session, &err) : base_no_memory(&err, "outputs");
  if (status == TD_OK)
    status = batch_run(job->version, session, job->inputs, outputs, &job->cancel, job->deadline_ns, &err);
  job->status = 200;
  if (status == TD_OK) status = job->protocol->write(job, outputs, &err);
  if (status != TD_OK) serve_fail(job, status, &err);
}

bool batch_joins(const serve_job *a, const serve_job *b, size_t inputs) {
  for (size_t i = 0; i < inputs; i++) {
    const td_tensor *x = &a->inputs[i], *y = &b->inputs[i];
    if (!x->data || !y->data || x->dtype != y->dtype || x->rank != y->rank || x->rank < 1) return false;
    if (x->dims[0] != a->inputs[0].dims[0] || y->dims[0] != b->inputs[0].dims[0]) return false;
    if (memcmp(&x->dims[1], &y->dims[1], (size_t)(x->rank - 1) * sizeof *x->dims) != 0) return false;
  }
  return true;
}

static size_t bytes_of(const td_tensor *t) {
  int64_t count = 0;
  size_t bytes = 0;
  return base_numel(t->rank, t->dims, &count) && base_dtype_bytes(t->dtype, count, &bytes) ? bytes : 0;
}

td_status batch_join_inputs(serve_job **jobs, uint32_t count, size_t inputs, td_tensor *joined, td_error *err) {
  for (size_t i = 0; i < inputs; i++) {
    size_t total = 0;
    joined[i] = jobs[0]->inputs[i];
    joined[i].dims[0] = 0;
    for (uint32_t j = 0; j < count; j++) {
      joined[i].dims[0] += jobs[j]->inputs[i].dims[0];
      total += bytes_of(&jobs[j]->inputs[i]);
    }
    char *to = base_arena_alloc_uncleared(jobs[0]->arena, total + 1, 64);
    if (!to) return base_no_memory(err, "a batch");
    joined[i].data = to;
    for (uint32_t j = 0; j < count; j++) {
      const size_t bytes = bytes_of(&jobs[j]->inputs[i]);
      memcpy(to, jobs[j]->inputs[i].data, bytes);
      to += bytes;
    }
  }
  return TD_OK;
}

bool batch_slice(const td_tensor *outputs, td_tensor *own, size_t count, int64_t all, int64_t first, int64_t rows) {
  for (size_t i = 0; i < count; i++) {
    own[i] = outputs[i];
    if (own[i].dtype == TD_INVALID || own[i].rank < 1 || own[i].dims[0] != all) return false;
    own[i].dims[0] = rows;
    own[i].data = (char *)own[i].data + bytes_of(&outputs[i]) / (size_t)all * (size_t)first;
  }
  return true;
}

td_status batch_run_group(serve_job **jobs, uint32_t count, td_session *session, const td_tensor *inputs,
                          td_tensor *outputs, td_error *err) {
  serve_group *group = base_new(jobs[0]->arena, serve_group, 1); /* lives as long as the jobs do */
  uint64_t deadline = 0;
  if (!group) return base_no_memory(err, "a batch");
  for (uint32_t i = 0; i < count; i++)
    if (jobs[i]->deadline_ns > deadline) deadline = jobs[i]->deadline_ns;
  serve_begin_group(group, jobs, count);
  const td_status status = batch_run(jobs[0]->version, session, inputs, outputs, &group->cancel, deadline, err);
  serve_end_group(jobs, count);
  return status;
}

/* False: they have to be computed alone. */
static bool compute_joined(serve_job **jobs, uint32_t count, td_session *session) {
  serve_version *v = jobs[0]->version;
  const size_t inputs = td_model_input_count(v->model), outputs = td_model_output_count(v->model);
  td_error err = {.offset = -1};
  td_tensor joined[BATCH_MOST_INPUTS];
  td_tensor *all = base_new(jobs[0]->arena, td_tensor, outputs), *own = base_new(jobs[0]->arena, td_tensor, outputs);
  int64_t first = 0;
  if (!all || !own || batch_join_inputs(jobs, count, inputs, joined, &err) != TD_OK || joined[0].dims[0] < 1)
    return false;
  if (reset(v->model, session, &err) != TD_OK || batch_run_group(jobs, count, session, joined, all, &err) != TD_OK)
    return false;
  if (!batch_slice(all, own, outputs, joined[0].dims[0], 0, 0)) return false;
  for (uint32_t j = 0; j < count; j++) {
    const int64_t rows = jobs[j]->inputs[0].dims[0];
    batch_slice(all, own, outputs, joined[0].dims[0], first, rows);
    first += rows;
    jobs[j]->status = 200;
    const td_status status = jobs[j]->protocol->write(jobs[j], own, &err);
    if (status != TD_OK) serve_fail(jobs[j], status, &err);
  }
  return true;
}

bool batch_prepare(serve_job *job) {
  td_error err = {.offset = -1};
  td_status status = TD_OK;
  if (__atomic_load_n(&job->cancel, __ATOMIC_RELAXED)) {
    serve_fail(job, TD_CANCELLED, &err);
    return false;
  }
  const uint64_t begin = sys_clock_ns();
  job->inputs = base_new(job->arena, td_tensor, td_model_input_count(job->version->model) + 1);
  if (begin <= job->deadline_ns) status = job->inputs ? job->protocol->read(job, &err) : base_no_memory(&err, "inputs");
  const uint64_t over = sys_clock_ns();
  if (status == TD_OK && begin <= job->deadline_ns) job->decoded_ns = over - begin + 1; /* never 0 */
  if (status == TD_OK && over > job->deadline_ns) {
    serve_refuse(job, 504, "the request waited too long for its turn");
    return false;
  }
  if (status != TD_OK) serve_fail(job, status, &err);
  return status == TD_OK;
}

void serve_compute(serve_job **jobs, uint32_t count, td_session *session, td_guest *guest) {
  const td_model *model = jobs[0]->version->model;
  const size_t inputs = td_model_state_count(model) ? 0 : td_model_input_count(model); /* a first state has one row */
  serve_job *group[SERVE_MOST_BATCH], *todo[SERVE_MOST_BATCH];
  uint32_t left = 0;
  td_guest_enter(guest); /* decoding takes this core */
  for (uint32_t i = 0; i < count; i++)
    if (batch_prepare(jobs[i])) todo[left++] = jobs[i];
  td_guest_leave(guest);
  while (left) {
    uint32_t joined = 0, others = 0;
    serve_job *head = todo[0];
    for (uint32_t i = 0; i < left; i++) {
      if (i == 0 || (inputs && inputs <= BATCH_MOST_INPUTS && batch_joins(head, todo[i], inputs)))
        group[joined++] = todo[i];
      else todo[others++] = todo[i];
    }
    if (joined == 1 || !compute_joined(group, joined, session))
      for (uint32_t i = 0; i < joined; i++) compute_alone(group[i], session);
    left = others;
  }
}

/* ---- when a version is loaded ---- */

/* Zeros of an input's type and size, where the first size is `rows` if it is open. */
static td_status make_zeros(const td_model *model, size_t index, int64_t rows, base_arena *arena, td_tensor *t,
                            td_error *err) {
  td_value_info info = {.size = sizeof info};
  int64_t count;
  size_t bytes;
  TRY(td_model_input(model, index, &info, err));
  *t = (td_tensor){.dtype = info.dtype, .rank = info.rank};
  if (strcmp(info.kind, "tensor") != 0 || info.rank < 0 || info.has_default || info.dtype == TD_STRING) return TD_OK;
  for (int32_t d = 0; d < info.rank; d++) t->dims[d] = info.dims[d] < 0 ? (d ? OPEN_SIZE : rows) : info.dims[d];
  if (!base_numel(t->rank, t->dims, &count) || !base_dtype_bytes(t->dtype, count, &bytes)) return TD_OK;
  t->data = base_arena_alloc_aligned(arena, bytes + 1, 64);
  return t->data ? TD_OK : base_no_memory(err, "a first run");
}

/* The least time of a run with `rows` rows, in ns; 0: the model does not run on zeros of such sizes. */
static uint64_t time_rows(serve_version *v, td_session *session, int64_t rows) {
  td_error err = {.offset = -1};
  const size_t inputs = td_model_input_count(v->model), outputs = td_model_output_count(v->model);
  base_arena *arena = base_arena_new(&base_libc_allocator);
  td_tensor *in = arena ? base_new(arena, td_tensor, inputs + 1) : NULL;
  td_tensor *out = arena ? base_new(arena, td_tensor, outputs + 1) : NULL;
  uint64_t least = 0;
  td_status status = in && out ? TD_OK : TD_NO_RESOURCE;
  for (size_t i = 0; status == TD_OK && i < inputs; i++) status = make_zeros(v->model, i, rows, arena, &in[i], &err);
  const int trials = v->batch_size > 1 ? TRIALS : 1; /* with batches of one the time decides nothing */
  uint64_t spent = 0;
  for (int trial = 0; status == TD_OK && (trial < trials || (trials > 1 && spent < LEAST_TRIAL_NS)); trial++) {
    const uint64_t begin = sys_clock_ns();
    status = reset(v->model, session, &err);
    if (status != TD_OK) break;
    if (rows > 1 && v->state_dims) status = sequence_try_rows(v, session, rows, in, out, arena, &err);
    else status = batch_run(v, session, in, out, NULL, 0, &err);
    const uint64_t took = sys_clock_ns() - begin;
    spent += took;
    if (status == TD_OK && (!least || took < least)) least = took;
  }
  for (size_t i = 0; status == TD_OK && rows > 1 && i < outputs; i++)
    if (out[i].rank < 1 || out[i].dims[0] != rows) least = 0;
  base_arena_free(arena);
  return status == TD_OK ? least : 0;
}

/* Runs on one row, and then for how many jobs joining pays. */
static td_status find_rows(serve_version *v, td_session *session, uint32_t *most, td_error *err) {
  uint64_t best = time_rows(v, session, 1);
  *most = 1;
  if (td_model_state_count(v->model) && v->batch_size > 1 && !v->state_dims)
    TRY(sequence_find_dims(v->model, v->arena, &v->state_dims, err));
  if (!best || (td_model_state_count(v->model) && !v->state_dims)) return TD_OK;
  for (size_t i = 0; i < td_model_input_count(v->model); i++) {
    td_value_info info = {.size = sizeof info};
    TRY(td_model_input(v->model, i, &info, err));
    if (info.rank < 1 || info.dims[0] != -1) return TD_OK;
  }
  for (uint32_t rows = 2; rows <= v->batch_size; rows *= 2) {
    const uint64_t took = time_rows(v, session, rows) / rows;
    if (!took || took * 100 > best * 97) break; /* a larger batch pays only where its rows are cheaper */
    best = took;
    *most = rows;
  }
  return TD_OK;
}

td_status serve_warm(serve_version *v, td_session *session, td_error *err) {
  uint32_t rows;
  TRY(find_rows(v, session, &rows, err));
  pthread_mutex_lock(&v->server->lock); /* figures may tell it: the version may be one that had no workers */
  v->batch_rows = rows;
  pthread_mutex_unlock(&v->server->lock);
  return TD_OK;
}
