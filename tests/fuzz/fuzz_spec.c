/* The YAML of a workflow: what is read is within its bounds, edges have two ends, and no node waits for itself. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "workflow.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_sound(const serve_workflow *flow) {
  uint64_t done = 0;
  assert(flow->count > 0 && flow->count <= WORKFLOW_MOST_NODES && flow->dag);
  assert(flow->batch >= 1 && flow->batch <= SERVE_MOST_BATCH && flow->max_workers <= SERVE_MOST_WORKERS);
  for (uint32_t i = 0; i < flow->count; i++) {
    const workflow_node *node = &flow->nodes[i];
    assert(*node->name && node->model && node->limit_ns && node->retries <= 100);
    for (uint32_t k = 0; k < WORKFLOW_MOST_NODES; k++) {
      const bool leads = node->after >> k & 1;
      assert(!leads || (k < flow->count && flow->nodes[k].before >> i & 1));
      assert(!(node->before >> k & 1) || (k < flow->count && flow->nodes[k].after >> i & 1));
    }
  }
  for (uint32_t round = 0; round < flow->count; round++)
    for (uint32_t i = 0; i < flow->count; i++)
      if (!(flow->nodes[i].before & ~done)) done |= (uint64_t)1 << i;
  for (uint32_t i = 0; i < flow->count; i++) assert(done >> i & 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  uint8_t *copy = malloc(size ? size : 1); /* of its own, so that a byte beyond it is found */
  serve_workflow flow = {.arena = arena, .name = "flow", .spec = "spec.yaml"};
  td_error err = {.offset = -1};
  if (!arena || !copy) abort();
  if (size) memcpy(copy, data, size);
  flow.nodes = base_new(arena, workflow_node, WORKFLOW_MOST_NODES);
  if (!flow.nodes) abort();
  if (workflow_read_spec(&flow, copy, size, &err) == TD_OK) expect_sound(&flow);
  else assert(err.text[0]);
  free(copy);
  base_arena_free(arena);
  return 0;
}
