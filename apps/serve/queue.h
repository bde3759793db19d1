/* queue.h -- what the threads take from the queues. All with server->lock held. */
#ifndef SERVE_QUEUE_H
#define SERVE_QUEUE_H
#include "batch.h"

/* Of the versions that have a session left the one that computes least for its workers, of several such the one that
 * waited longest, taken out of the line. NULL: there is none, or there are not the CPUs for it: others wait, too, so
 * that it has its turn. */
serve_version *queue_take_version(serve_server *server);
/* For how many CPUs a job of the version counts, with the lock: its processes have threads of their own, its sessions
 * begin with one and share out what others leave. */
uint32_t queue_cpus(const serve_version *v);
/* A version stands in the line as long as it has a job that can be computed. */
void queue_settle(serve_version *v);
/* Jobs for one batch, of a version that has some: how many there are. What explains and what does not are no batch: a
 * handler asks for it once. Nor are requests of sequences and others. Of a sequence there is one, as the next one waits
 * for its state. */
uint32_t queue_take_jobs(serve_version *v, serve_job **jobs);
bool queue_drop(serve_job *job); /* false: it is in no queue */
#endif
