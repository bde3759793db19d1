/* metrics.c -- Prometheus' text: TorchServe's counters, and histograms of waiting and computing. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server.h"

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

static void print_histogram(base_text *to, const char *model, const char *what, const serve_histogram *h) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < SERVE_BUCKETS; i++) {
    char bound[32] = "+Inf";
    if (i < SERVE_BUCKETS - 1) snprintf(bound, sizeof bound, "%g", (double)bounds_us[i] / 1e6);
    sum += h->buckets[i];
    base_text_print(to, "treadle_%s_seconds_bucket{model_name=%s,le=\"%s\"} %llu\n", what, model, bound,
                    (unsigned long long)sum);
  }
  base_text_print(to, "treadle_%s_seconds_sum{model_name=%s} %.6f\n", what, model, (double)h->total_us / 1e6);
  base_text_print(to, "treadle_%s_seconds_count{model_name=%s} %llu\n", what, model, (unsigned long long)h->count);
}

static void print_counter(base_text *to, const char *name, const char *labels, uint64_t value) {
  base_text_print(to, "%s{%s} %llu\n", name, labels, (unsigned long long)value);
}

static void print_model(base_text *to, serve_model *m, const char *host) {
  char labels[1024];
  base_text name = {.allocator = &base_libc_allocator};
  base_text_quote(&name, m->name, strlen(m->name));
  if (!name.failed) {
    snprintf(labels, sizeof labels, "model_name=%.600s,model_version=\"default\",hostname=\"%.64s\"", name.at, host);
    pthread_mutex_lock(&m->lock);
    const serve_histogram queue = m->queue_time, compute = m->compute_time;
    const uint32_t depth = m->depth;
    pthread_mutex_unlock(&m->lock);
    print_counter(to, "ts_inference_requests_total", labels, compute.count);
    print_counter(to, "ts_inference_latency_microseconds", labels, compute.total_us + queue.total_us);
    print_counter(to, "ts_queue_latency_microseconds", labels, queue.total_us);
    print_counter(to, "treadle_queue_depth", labels, depth);
    print_histogram(to, name.at, "queue", &queue);
    print_histogram(to, name.at, "compute", &compute);
  }
  base_text_free(&name);
}

void serve_print_metrics(serve_server *server, base_text *to) {
  static const char *const names[] = {"Requests2XX", "Requests4XX", "Requests5XX"};
  char host[65] = "";
  gethostname(host, sizeof host - 1);
  for (uint32_t i = 0; i < 3; i++) {
    base_text_print(to, "# TYPE %s counter\n%s{Level=\"Host\",Hostname=\"%s\"} %llu\n", names[i], names[i], host,
                    (unsigned long long)server->replies[i]);
  }
  for (uint32_t i = 0; i < server->model_count; i++) print_model(to, &server->models[i], host);
}
