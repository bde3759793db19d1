/* workflow.h -- a TorchServe workflow: models and functions of a handler, and which gets whose replies. */
#ifndef SERVE_WORKFLOW_H
#define SERVE_WORKFLOW_H
#include "server.h"

enum { WORKFLOW_MOST_NODES = 64 }; /* a bit of a mask for each */

typedef struct workflow_node {
  const char *name;  /* in the workflow */
  const char *model; /* in the table of models: WORKFLOW__NAME */
  const char *url;   /* of its archive in the model store; NULL: a function of the handler */
  serve_config config;
  uint64_t limit_ns;      /* that one try may take */
  uint32_t retries;       /* behind one that failed */
  uint64_t before, after; /* nodes whose replies it gets, and that get its own */
} workflow_node;

struct serve_workflow {
  uint32_t refs; /* under server->tables: the table's, and one for each request */
  base_arena *arena;
  const char *name, *url;
  const char *path;    /* of its archive */
  const char *handler; /* the file of its functions */
  const char *spec;    /* the file that says what it is */
  const char *dag;     /* as TorchServe tells it */
  int64_t min_workers, max_workers, batch, delay_ms;
  workflow_node *nodes;
  uint32_t count;
  /* ---- under server->tables: of requests, from when they are whole ---- */
  serve_histogram time; /* until the reply of all nodes is there */
  uint64_t failed;      /* that a node failed, while their clients were there */
};

/* spec.c: opens `.war`, an archive of a workflow. `name`, NULL: as its manifest says. */
td_status workflow_open(const char *name, const char *url, const char *path, serve_workflow **out, td_error *err);
/* Its YAML: fills nodes, of which there is room for WORKFLOW_MOST_NODES, and what stands behind `spec`. `flow` has an
 * arena and names. Errors: TD_BAD_FILE, and then no more than flow->count nodes are valid. */
td_status workflow_read_spec(serve_workflow *flow, const uint8_t *bytes, size_t size, td_error *err);
void workflow_free(serve_workflow *flow); /* NULL is allowed */
#endif
