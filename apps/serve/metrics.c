/* metrics.c -- Prometheus' text: TorchServe's counters, and histograms of waiting, decoding, computing, batches and
 * workflows. The lines of a family stand together, whatever the number of models. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "workflow.h"

static const uint64_t bounds_us[SERVE_BUCKETS - 1] = {100,   250,   500,    1000,   2500,    5000,    10000,
                                                      25000, 50000, 100000, 250000, 1000000, 10000000};

void serve_count(serve_histogram *h, uint64_t ns) {
  const uint64_t us = ns / 1000;
  uint32_t at = 0;
  while (at < SERVE_BUCKETS - 1 && us > bounds_us[at]) at++;
  h->buckets[at]++;
  h->total_us += us;
  h->count++;
}

/* The figures of a version at one time. */
typedef struct figures {
  char *labels;
  serve_histogram queue, decode, compute, total, batches;
  uint64_t batch_sizes[SERVE_BATCH_BUCKETS];
  uint64_t depth, workers, batch_rows, sequences, started, ended, timed_out;
  serve_compared compared;
} figures;

static bool take(serve_job *job, serve_version *v, const char *host, figures *f) {
  base_text labels = {.allocator = &base_libc_allocator};
  base_text_print(&labels, "model_name=\"%s\",model_version=", v->name);
  base_text_quote(&labels, v->number, strlen(v->number));
  base_text_print(&labels, ",hostname=\"%s\"", host);
  f->labels = labels.failed ? NULL : base_arena_slice(job->arena, labels.at, labels.length);
  base_text_free(&labels);
  pthread_mutex_lock(&v->server->lock);
  f->queue = v->queue_time;
  f->decode = v->decode_time;
  f->compute = v->compute_time;
  f->total = v->total_time;
  f->batches = v->batches;
  memcpy(f->batch_sizes, v->batch_sizes, sizeof f->batch_sizes);
  f->depth = v->depth;
  f->compared = v->compared;
  f->workers = serve_workers(v);
  f->batch_rows = v->batch_rows;
  pthread_mutex_unlock(&v->server->lock);
  f->sequences = v->sequences;
  f->started = v->started_sequences;
  f->ended = v->ended_sequences;
  f->timed_out = v->timed_out_sequences;
  return f->labels != NULL;
}

static uint64_t requests(const figures *f) { return f->compute.count; }
static uint64_t latency(const figures *f) { return f->compute.total_us + f->queue.total_us; }
static uint64_t waited(const figures *f) { return f->queue.total_us; }
static uint64_t waiting(const figures *f) { return f->depth; }
static uint64_t workers(const figures *f) { return f->workers; }
static uint64_t batch_limit(const figures *f) { return f->batch_rows; }
static uint64_t sequences(const figures *f) { return f->sequences; }
static uint64_t started(const figures *f) { return f->started; }
static uint64_t ended(const figures *f) { return f->ended; }
static uint64_t timed_out(const figures *f) { return f->timed_out; }
static uint64_t batches(const figures *f) { return f->batches.count; }
static uint64_t compared(const figures *f) { return f->compared.count; }
static uint64_t failed(const figures *f) { return f->compared.failed; }
static uint64_t dropped(const figures *f) { return f->compared.dropped; }
static uint64_t shadow_us(const figures *f) { return f->compared.own_us; }
static uint64_t default_us(const figures *f) { return f->compared.default_us; }

static const struct {
  const char *name, *type;
  uint64_t (*value)(const figures *);
} families[] = {{"ts_inference_requests_total", "counter", requests},
                {"ts_inference_latency_microseconds", "counter", latency},
                {"ts_queue_latency_microseconds", "counter", waited},
                {"treadle_batches_total", "counter", batches},
                {"treadle_shadow_compared_total", "counter", compared},
                {"treadle_shadow_failed_total", "counter", failed},
                {"treadle_shadow_dropped_total", "counter", dropped},
                {"treadle_shadow_microseconds_total", "counter", shadow_us},
                {"treadle_shadow_default_microseconds_total", "counter", default_us},
                {"treadle_sequences_started_total", "counter", started},
                {"treadle_sequences_ended_total", "counter", ended},
                {"treadle_sequences_timed_out_total", "counter", timed_out},
                {"treadle_sequences", "gauge", sequences},
                {"treadle_queue_depth", "gauge", waiting},
                {"treadle_batch_limit", "gauge", batch_limit},
                {"treadle_workers", "gauge", workers}};

static void print_histogram(base_text *to, const char *labels, const char *what, const serve_histogram *h) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < SERVE_BUCKETS; i++) {
    char bound[32] = "+Inf";
    if (i < SERVE_BUCKETS - 1) snprintf(bound, sizeof bound, "%g", (double)bounds_us[i] / 1e6);
    sum += h->buckets[i];
    base_text_print(to, "treadle_%s_seconds_bucket{%s,le=\"%s\"} %llu\n", what, labels, bound, (unsigned long long)sum);
  }
  base_text_print(to, "treadle_%s_seconds_sum{%s} %.6f\n", what, labels, (double)h->total_us / 1e6);
  base_text_print(to, "treadle_%s_seconds_count{%s} %llu\n", what, labels, (unsigned long long)h->count);
}

static void print_batches(base_text *to, const figures *f) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < SERVE_BATCH_BUCKETS; i++) {
    sum += f->batch_sizes[i];
    base_text_print(to, "treadle_batch_size_bucket{%s,le=\"%u\"} %llu\n", f->labels, 1u << i, (unsigned long long)sum);
  }
  base_text_print(to, "treadle_batch_size_bucket{%s,le=\"+Inf\"} %llu\ntreadle_batch_size_sum{%s} %llu\n", f->labels,
                  (unsigned long long)sum, f->labels, (unsigned long long)f->batches.total_us);
  base_text_print(to, "treadle_batch_size_count{%s} %llu\n", f->labels, (unsigned long long)sum);
}

static const struct {
  const char *name;
  size_t at; /* in `figures` */
} times[] = {{"queue", offsetof(figures, queue)},
             {"decode", offsetof(figures, decode)},
             {"compute", offsetof(figures, compute)},
             {"total", offsetof(figures, total)}};

static void print_versions(base_text *to, const figures *all, size_t count) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    base_text_print(to, "# TYPE %s %s\n", families[i].name, families[i].type);
    for (size_t j = 0; j < count; j++)
      base_text_print(to, "%s{%s} %llu\n", families[i].name, all[j].labels,
                      (unsigned long long)families[i].value(&all[j]));
  }
  base_text_print(to, "# TYPE treadle_shadow_largest_difference gauge\n");
  for (size_t j = 0; j < count; j++)
    if (isinf(all[j].compared.difference))
      base_text_print(to, "treadle_shadow_largest_difference{%s} +Inf\n", all[j].labels);
    else base_text_print(to, "treadle_shadow_largest_difference{%s} %.9g\n", all[j].labels, all[j].compared.difference);
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    base_text_print(to, "# TYPE treadle_%s_seconds histogram\n", times[i].name);
    for (size_t j = 0; j < count; j++)
      print_histogram(to, all[j].labels, times[i].name,
                      (const serve_histogram *)(const void *)((const char *)&all[j] + times[i].at));
  }
  base_text_print(to, "# TYPE treadle_batch_size histogram\n");
  for (size_t j = 0; j < count; j++) print_batches(to, &all[j]);
}

/* Their nodes are models, and have figures of their own. */
static void print_workflows(serve_job *job, const char *host) {
  const serve_server *server = job->server;
  const uint32_t count = server->workflow_count;
  char **labels = base_new(job->arena, char *, (size_t)count + 1);
  if (!count || !labels) return;
  base_text_print(&job->reply, "# TYPE treadle_workflow_failed_total counter\n");
  for (uint32_t i = 0; i < count; i++) {
    const serve_workflow *flow = server->workflows[i];
    labels[i] = base_arena_format(job->arena, "workflow_name=\"%s\",hostname=\"%s\"", flow->name, host);
    if (labels[i])
      base_text_print(&job->reply, "treadle_workflow_failed_total{%s} %llu\n", labels[i],
                      (unsigned long long)flow->failed);
  }
  base_text_print(&job->reply, "# TYPE treadle_workflow_seconds histogram\n");
  for (uint32_t i = 0; i < count; i++)
    if (labels[i]) print_histogram(&job->reply, labels[i], "workflow", &server->workflows[i]->time);
}

void serve_metrics(serve_job *job) {
  static const char *const names[] = {"Requests2XX", "Requests4XX", "Requests5XX"};
  const serve_server *server = job->server;
  char host[65] = "";
  size_t count = 0;
  for (uint32_t i = 0; i < server->model_count; i++) count += server->models[i]->count;
  figures *all = base_new(job->arena, figures, count + 1);
  gethostname(host, sizeof host - 1);
  count = 0;
  for (uint32_t i = 0; all && i < server->model_count; i++)
    for (uint32_t j = 0; j < server->models[i]->count; j++)
      if (take(job, server->models[i]->versions[j], host, &all[count])) count++;
  /* the comma and the fraction are TorchServe's: there are scripts that look for them */
  for (uint32_t i = 0; i < 3; i++)
    base_text_print(&job->reply, "# TYPE %s counter\n%s{Level=\"Host\",Hostname=\"%s\",} %llu.0\n", names[i], names[i],
                    host, (unsigned long long)server->replies[i]);
  base_text_print(&job->reply,
                  "# TYPE treadle_access_log_lines_lost_total counter\ntreadle_access_log_lines_lost_total %llu\n",
                  (unsigned long long)serve_log_lost(server->log));
  base_text_print(&job->reply,
                  "# TYPE treadle_held_bytes gauge\ntreadle_held_bytes %llu\n# TYPE treadle_held_bytes_limit gauge\n"
                  "treadle_held_bytes_limit %lld\n",
                  (unsigned long long)serve_held(server), (long long)server->options.most_held);
  print_versions(&job->reply, all, count);
  print_workflows(job, host);
  if (!server->options.no_system_metrics) serve_print_system(&job->reply, job->server, host);
  job->status = 200;
  job->type = "text/plain; version=0.0.4";
}
