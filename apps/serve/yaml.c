/* yaml.c -- model-config.yaml of an archive: the numbers at its top that mean something here. libyaml reads it as plain
 * data; what stands deeper, and other keys, is passed over. */
#include <string.h>
#include <yaml.h>

#include "server.h"

enum { MOST_EVENTS = 10000 };

typedef struct key {
  const char *name;
  size_t at; /* in serve_config */
  int64_t low, high;
} key;

static const key keys[] = {{"minWorkers", offsetof(serve_config, min_workers), 0, SERVE_MOST_WORKERS},
                           {"maxWorkers", offsetof(serve_config, max_workers), 0, SERVE_MOST_WORKERS},
                           {"batchSize", offsetof(serve_config, batch), 1, SERVE_MOST_BATCH},
                           {"maxBatchDelay", offsetof(serve_config, delay_ms), 0, 1 << 30},
                           {"responseTimeout", offsetof(serve_config, timeout_s), 1, 86400},
                           {"startupTimeout", offsetof(serve_config, start_s), 1, 86400},
                           {"clientTimeoutInMills", offsetof(serve_config, client_ms), 0, 86400000},
                           {"jobQueueSize", offsetof(serve_config, queue), 1, 65536},
                           {"maxNumSequence", offsetof(serve_config, sequences), 0, SERVE_MOST_SEQUENCES},
                           {"maxSequenceJobQueueSize", offsetof(serve_config, sequence_queue), 0, 65536},
                           {"sequenceMaxIdleMSec", offsetof(serve_config, sequence_idle_ms), 0, 86400000},
                           {"sequenceTimeoutMSec", offsetof(serve_config, sequence_limit_ms), 0, 86400000}};

static const key *find_key(const char *name) {
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strcmp(keys[i].name, name) == 0) return &keys[i];
  return NULL;
}

static td_status store(const key *k, const char *value, serve_config *config, td_error *err) {
  int64_t number;
  if (!base_str_int(base_str_of(value), &number) || number < k->low || number > k->high)
    return base_fail(err, TD_BAD_FILE, k->name, -1, "'%.40s' is no number from %lld to %lld", value, (long long)k->low,
                     (long long)k->high);
  *(int64_t *)(void *)((char *)config + k->at) = number;
  return TD_OK;
}

/* How many levels deeper an event leads. */
static int step_of(yaml_event_type_t type) {
  if (type == YAML_MAPPING_START_EVENT || type == YAML_SEQUENCE_START_EVENT) return 1;
  return type == YAML_MAPPING_END_EVENT || type == YAML_SEQUENCE_END_EVENT ? -1 : 0;
}

/* One event; at depth 1 scalars are names and values in turn, and a collection takes the place of a value. */
static td_status take(const yaml_event_t *event, int *depth, bool *is_value, const key **k, serve_config *config,
                      td_error *err) {
  const int step = step_of(event->type);
  const bool is_scalar = event->type == YAML_SCALAR_EVENT && *depth == 1;
  *depth += step;
  if (step < 0 && *depth == 1) *is_value = false;
  if (!is_scalar) return TD_OK;
  const char *text = (const char *)event->data.scalar.value;
  *is_value = !*is_value;
  if (*is_value) {
    *k = find_key(text);
    return TD_OK;
  }
  return *k ? store(*k, text, config, err) : TD_OK;
}

td_status serve_read_yaml(const char *what, const void *bytes, size_t size, serve_config *config, td_error *err) {
  yaml_parser_t parser;
  yaml_event_t event;
  const key *k = NULL;
  td_status status = TD_OK;
  int depth = 0;
  bool is_value = false, over = false;
  if (!yaml_parser_initialize(&parser)) return base_no_memory(err, what);
  yaml_parser_set_input_string(&parser, bytes, size);
  for (int events = 0; status == TD_OK && !over; events++) {
    if (events == MOST_EVENTS || !yaml_parser_parse(&parser, &event))
      status = base_fail(err, TD_BAD_FILE, what, (int64_t)parser.problem_offset, "is no YAML: %s",
                         parser.problem ? parser.problem : "it is too long");
    else {
      over = event.type == YAML_STREAM_END_EVENT;
      status = take(&event, &depth, &is_value, &k, config, err);
      yaml_event_delete(&event);
    }
  }
  yaml_parser_delete(&parser);
  return status;
}
