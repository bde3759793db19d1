/* streams.c -- a batch over streams, timed as a session is. */
#include "bench.h"
#include "common/threads.h"

/* Dense tensors of the feed; those with `samples` rows are cut. */
static td_status take_inputs(const app_feed *feed, int64_t samples, base_arena *arena, td_streams_options *options,
                             td_tensor *inputs, td_error *err) {
  for (size_t i = 0; i < feed->count; i++) {
    const base_value *value = &feed->values[i];
    inputs[i] = (td_tensor){.dtype = TD_INVALID};
    const bool cut =
        feed->given[i] && value->kind == BASE_TENSOR && value->tensor.rank > 0 && value->tensor.dims[0] == samples;
    if (!cut && i < 64) options->whole |= (uint64_t)1 << i;
    if (feed->given[i] && value->kind != BASE_TENSOR)
      return base_fail(err, TD_UNSUPPORTED, feed->infos[i].name, -1, "--streams takes models whose inputs are tensors");
    if (feed->given[i]) TRY(app_dense_tensor(&value->tensor, arena, &inputs[i], err));
  }
  return TD_OK;
}

td_status cli_open_streams(const cli_args *args, const td_model *model, const app_feed *feed, int64_t samples,
                           int64_t count, app_timed *what, td_error *err) {
  app_threads threads;
  TRY(cli_threads_of(args, &threads, err));
  const size_t output_count = td_model_output_count(model);
  td_streams_options options = {.size = sizeof options, .streams = (uint32_t)count, .threads = threads.count};
  td_tensor *inputs = base_new(args->arena, td_tensor, feed->count + 1),
            *outputs = base_new(args->arena, td_tensor, output_count + 1);
  if (!inputs || !outputs) return base_no_memory(err, "streams");
  TRY(take_inputs(feed, samples, args->arena, &options, inputs, err));
  for (size_t i = 0; i < output_count; i++) {
    TRY(td_session_output(what->session, i, &outputs[i], err));
    const base_tensor t = base_tensor_of(outputs[i].data, outputs[i].dtype, outputs[i].rank, outputs[i].dims);
    outputs[i].data = base_arena_alloc_aligned(args->arena, base_tensor_bytes(&t) + 1, 64);
    if (!outputs[i].data) return base_no_memory(err, "an output");
  }
  what->batch = (td_run_options){.size = sizeof what->batch,
                                 .inputs = inputs,
                                 .input_count = feed->count,
                                 .outputs = outputs,
                                 .output_count = output_count};
  return td_streams_new(model, &options, &what->streams, err);
}
