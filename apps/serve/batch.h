/* batch.h -- what joins jobs of one version, whether they stand alone (batch.c) or are of sequences (sequence_batch.c).
 */
#ifndef SERVE_BATCH_H
#define SERVE_BATCH_H
#include "server.h"

enum { BATCH_MOST_INPUTS = 64 };

/* Is it still waited for, and what are its tensors? False: it has its reply. */
bool batch_prepare(serve_job *job);
/* Do both give the same inputs, alike but for the first size? */
bool batch_joins(const serve_job *a, const serve_job *b, size_t inputs);
/* The inputs of all jobs, one behind the other, in the arena of the first. */
td_status batch_join_inputs(serve_job **jobs, uint32_t count, size_t inputs, td_tensor *joined, td_error *err);
/* Inputs are these alone. `cancel`, `deadline_ns`: as td_run_options has them. */
td_status batch_run(serve_version *v, td_session *session, const td_tensor *inputs, td_tensor *outputs,
                    const int32_t *cancel, uint64_t deadline_ns, td_error *err);
/* The same for joined ones: as long as somebody waits for one of them. */
td_status batch_run_group(serve_job **jobs, uint32_t count, td_session *session, const td_tensor *inputs,
                          td_tensor *outputs, td_error *err);
/* `count` outputs of `all` rows as those from `first` on. False: one has other rows than the inputs. */
bool batch_slice(const td_tensor *outputs, td_tensor *own, size_t count, int64_t all, int64_t first, int64_t rows);

/* sequence_batch.c: which dimension of each state counts sequences, in `arena`; NULL: that is not known of all. */
td_status sequence_find_dims(const td_model *model, base_arena *arena, const uint8_t **dims, td_error *err);
/* A run of `rows` sequences that begin, their states put together and taken apart with it. Errors: also where a state
 * or an output has other rows then. */
td_status sequence_try_rows(serve_version *v, td_session *session, int64_t rows, const td_tensor *inputs,
                            td_tensor *outputs, base_arena *arena, td_error *err);
/* Requests of as many sequences; joined by `session`, or each by its sequence's own. */
void sequence_compute(serve_job **jobs, uint32_t count, td_session *session);
#endif
