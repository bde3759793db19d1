/* streams.c -- batches over streams of cores. */
#include "api/api_priv.h"
#include <treadle/async.h>

struct td_streams {
  td_allocator allocator;
  const td_model *model;
  run_pool *own; /* NULL: the caller's pool */
  run_streams *run;
  base_value *inputs; /* room for all of the model, as for outputs */
  base_tensor *outputs;
  uint64_t whole;
};

td_status td_streams_new(const td_model *model, const td_streams_options *options, td_streams **streams,
                         td_error *err) {
  td_streams_options o = {0};
  if (!model || !streams)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_streams_new needs a model and a place for the streams");
  TRY(api_read_options(&o, sizeof o, options, err));
  TRY(api_check_runs_here(model, err));
  td_streams *s = base_alloc(&model->allocator, sizeof *s);
  if (!s) return base_no_memory(err, "streams");
  const uint32_t inputs = model->plan->inputs.count, outputs = model->plan->outputs.count;
  *s = (td_streams){.allocator = model->allocator, .model = model, .whole = o.whole};
  s->inputs = base_alloc(&s->allocator, (inputs + 1) * sizeof *s->inputs);
  s->outputs = base_alloc(&s->allocator, (outputs + 1) * sizeof *s->outputs);
  td_status status = s->inputs && s->outputs ? TD_OK : base_no_memory(err, "streams");
  run_pool *pool = api_pool(o.pool);
  if (status == TD_OK && !pool) status = run_pool_new(o.threads, 0, &s->allocator, &s->own, err);
  if (status == TD_OK)
    status = run_streams_new(model->plan, pool ? pool : s->own, o.streams, &s->allocator, &s->run, err);
  if (status == TD_OK) *streams = s;
  else td_streams_free(s);
  return status;
}

void td_streams_free(td_streams *s) {
  if (!s) return;
  run_streams_free(s->run);
  run_pool_free(s->own);
  const td_allocator allocator = s->allocator;
  base_free(&allocator, s->inputs, (s->model->plan->inputs.count + 1) * sizeof *s->inputs);
  base_free(&allocator, s->outputs, (s->model->plan->outputs.count + 1) * sizeof *s->outputs);
  base_free(&allocator, s, sizeof *s);
}

static td_status read_batch(td_streams *s, const td_run_options *options, run_batch *b, td_error *err) {
  if (!s) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "a batch needs streams");
  run_request r = {.inputs = s->inputs, .outputs = s->outputs};
  TRY(api_fill_request(s->model, options, &r, err));
  *b = (run_batch){r.inputs, r.input_count, s->whole, r.outputs, r.output_count, r.until};
  return TD_OK;
}

td_status td_streams_run(td_streams *streams, const td_run_options *batch, td_error *err) {
  run_batch b;
  TRY(read_batch(streams, batch, &b, err));
  return api_tell_error(streams->model, run_streams_run(streams->run, &b, err), err);
}

td_status td_streams_predict_output(td_streams *streams, const td_run_options *batch, size_t index, td_tensor *tensor,
                                    td_error *err) {
  run_batch b;
  base_tensor planned;
  bool known;
  if (!tensor)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_streams_predict_output needs a place for the tensor");
  TRY(read_batch(streams, batch, &b, err));
  const uint32_t at = index > UINT32_MAX ? UINT32_MAX : (uint32_t)index;
  TRY(api_tell_error(streams->model, run_streams_predict(streams->run, &b, at, &planned, &known, err), err));
  if (known) api_to_tensor(&planned, tensor);
  return known ? TD_OK : TD_ANSWER_NO;
}

uint32_t td_streams_count(const td_streams *streams, int64_t samples) {
  return streams ? run_streams_count(streams->run, samples) : 0;
}

td_status td_streams_tune(td_streams *streams, const td_run_options *batch, td_error *err) {
  run_batch b;
  uint32_t count;
  TRY(read_batch(streams, batch, &b, err));
  return api_tell_error(streams->model, run_streams_tune(streams->run, &b, &count, err), err);
}
