/* spec.c -- `.war` archives (zip): the manifest and the YAML of a workflow, as nodes and edges. Both may be anybody's:
 * a workflow has at most WORKFLOW_MOST_NODES nodes, its edges lead in no circle, and its numbers are in their bounds.
 */
#include <string.h>
#include <yaml.h>

#include "fmt/json.h"
#include "fmt/zip.h"
#include "workflow.h"

enum { MOST_SPEC = 1 << 16 };

/* What the spec says of all models, and each model of itself. */
typedef struct numbers {
  int64_t min_workers, max_workers, batch, delay_ms, retries, timeout_ms;
} numbers;

static const struct {
  const char *name;
  size_t at; /* in `numbers` */
  int64_t low, high;
} keys[] = {{"min-workers", offsetof(numbers, min_workers), 0, SERVE_MOST_WORKERS},
            {"max-workers", offsetof(numbers, max_workers), 1, SERVE_MOST_WORKERS},
            {"batch-size", offsetof(numbers, batch), 1, SERVE_MOST_BATCH},
            {"max-batch-delay", offsetof(numbers, delay_ms), 0, 1 << 30},
            {"retry-attempts", offsetof(numbers, retries), 0, 100},
            {"timeout-ms", offsetof(numbers, timeout_ms), 1, 86400000}};
enum { KEYS = sizeof keys / sizeof *keys };

/* A document, and what is made of it. */
typedef struct reader {
  serve_workflow *flow;
  yaml_document_t *document;
  yaml_node_t *models;
  numbers all; /* of models that say no other */
  td_error *err;
} reader;

static td_status bad(const reader *r, const char *what, const char *problem) {
  return base_fail(r->err, TD_BAD_FILE, r->flow->spec, -1, "'%.60s' %s", what, problem);
}

static const char *text_of(const yaml_node_t *node) {
  return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

/* Entry `index` of a mapping; false: it has no more, or is none. */
static bool entry_of(const reader *r, const yaml_node_t *map, size_t index, const char **key, yaml_node_t **value) {
  if (!map || map->type != YAML_MAPPING_NODE) return false;
  const yaml_node_pair_t *pairs = map->data.mapping.pairs.start;
  if (index >= (size_t)(map->data.mapping.pairs.top - pairs)) return false;
  *key = text_of(yaml_document_get_node(r->document, pairs[index].key));
  *value = yaml_document_get_node(r->document, pairs[index].value);
  return true;
}

static yaml_node_t *member_of(const reader *r, const yaml_node_t *map, const char *name) {
  const char *key;
  yaml_node_t *value;
  for (size_t i = 0; entry_of(r, map, i, &key, &value); i++)
    if (key && strcmp(key, name) == 0) return value;
  return NULL;
}

/* The numbers that a mapping has; others stay. */
static td_status read_numbers(const reader *r, const yaml_node_t *map, numbers *to) {
  for (size_t i = 0; i < KEYS; i++) {
    const yaml_node_t *value = member_of(r, map, keys[i].name);
    const char *text = text_of(value);
    int64_t number;
    if (!value) continue;
    if (!text || !base_str_int(base_str_of(text), &number) || number < keys[i].low || number > keys[i].high)
      return base_fail(r->err, TD_BAD_FILE, r->flow->spec, -1, "%s is no number from %lld to %lld", keys[i].name,
                       (long long)keys[i].low, (long long)keys[i].high);
    *(int64_t *)(void *)((char *)to + keys[i].at) = number;
  }
  return TD_OK;
}

/* The node of that name, which is made where it is not there yet. */
static td_status find_node(reader *r, const char *name, uint32_t *index) {
  serve_workflow *flow = r->flow;
  for (*index = 0; *index < flow->count; ++*index)
    if (strcmp(flow->nodes[*index].name, name) == 0) return TD_OK;
  if (flow->count == WORKFLOW_MOST_NODES) return bad(r, name, "is one node too many: a workflow has at most 64");
  workflow_node *node = &flow->nodes[flow->count];
  const yaml_node_t *model = member_of(r, r->models, name);
  numbers own = r->all;
  node->name = base_arena_text(flow->arena, name);
  node->model = base_arena_format(flow->arena, "%s__%s", flow->name, name);
  node->config = (serve_config)SERVE_SAYS_NOTHING;
  if (model) {
    const char *url = text_of(member_of(r, model, "url"));
    if (!url) return bad(r, name, "is a model without url");
    if (!(node->url = base_arena_text(flow->arena, url))) return base_no_memory(r->err, "a workflow");
    TRY(read_numbers(r, model, &own));
  } else {
    own.max_workers = own.min_workers = own.batch = 1;
  }
  if (!node->name || !node->model) return base_no_memory(r->err, "a workflow");
  node->config.min_workers = own.min_workers;
  node->config.max_workers = own.max_workers;
  node->config.batch = own.batch;
  node->config.delay_ms = own.delay_ms;
  node->retries = (uint32_t)own.retries;
  node->limit_ns = (uint64_t)own.timeout_ms * 1000000u;
  flow->count++;
  return TD_OK;
}

/* `to` of an edge; an empty one is none. */
static td_status read_edge(reader *r, uint32_t from, const yaml_node_t *value, base_text *dag, bool *first) {
  const char *name = text_of(value);
  uint32_t to;
  if (!name) return bad(r, r->flow->nodes[from].name, "has no list of names");
  if (!*name) return TD_OK;
  TRY(find_node(r, name, &to));
  r->flow->nodes[from].after |= (uint64_t)1 << to;
  r->flow->nodes[to].before |= (uint64_t)1 << from;
  base_text_print(dag, "%s%s", *first ? "" : ", ", name);
  *first = false;
  return TD_OK;
}

static td_status read_dag(reader *r, const yaml_node_t *map, base_text *dag) {
  const char *name;
  yaml_node_t *values;
  base_text_print(dag, "{");
  for (size_t i = 0; entry_of(r, map, i, &name, &values); i++) {
    uint32_t from;
    bool first = true;
    if (!name || !*name) return bad(r, "dag", "has a node without a name");
    TRY(find_node(r, name, &from));
    base_text_print(dag, "%s%s=[", i ? ", " : "", name);
    if (!values || values->type != YAML_SEQUENCE_NODE) return bad(r, name, "has no list of names");
    for (const yaml_node_item_t *at = values->data.sequence.items.start; at < values->data.sequence.items.top; at++)
      TRY(read_edge(r, from, yaml_document_get_node(r->document, *at), dag, &first));
    base_text_print(dag, "]");
  }
  base_text_print(dag, "}");
  return r->flow->count ? TD_OK : bad(r, "dag", "has no nodes");
}

/* Each node comes behind those whose replies it gets; a model that is no Python handler gets one reply, no names. */
static td_status check_order(const reader *r) {
  const serve_workflow *flow = r->flow;
  uint64_t done = 0, before;
  do {
    before = done;
    for (uint32_t i = 0; i < flow->count; i++)
      if (!(flow->nodes[i].before & ~done)) done |= (uint64_t)1 << i;
  } while (done != before);
  for (uint32_t i = 0; i < flow->count; i++)
    if (!(done >> i & 1)) return bad(r, flow->nodes[i].name, "waits for a reply that waits for its own");
  return TD_OK;
}

static td_status read_document(reader *r) {
  serve_workflow *flow = r->flow;
  const yaml_node_t *root = yaml_document_get_root_node(r->document);
  base_text dag = {.allocator = &base_libc_allocator};
  r->all = (numbers){1, 1, 1, 50, 1, 10000};
  r->models = member_of(r, root, "models");
  TRY(read_numbers(r, r->models, &r->all));
  flow->min_workers = r->all.min_workers;
  flow->max_workers = r->all.max_workers;
  flow->batch = r->all.batch;
  flow->delay_ms = r->all.delay_ms;
  td_status status = read_dag(r, member_of(r, root, "dag"), &dag);
  if (status == TD_OK) status = check_order(r);
  flow->dag = status == TD_OK && !dag.failed ? base_arena_slice(flow->arena, dag.at, dag.length) : NULL;
  base_text_free(&dag);
  return status != TD_OK || flow->dag ? status : base_no_memory(r->err, "a workflow");
}

td_status workflow_read_spec(serve_workflow *flow, const uint8_t *bytes, size_t size, td_error *err) {
  yaml_parser_t parser;
  yaml_document_t document;
  td_status status;
  if (size > MOST_SPEC) return base_fail(err, TD_BAD_FILE, flow->spec, -1, "has more than 65536 bytes");
  if (!yaml_parser_initialize(&parser)) return base_no_memory(err, flow->spec);
  yaml_parser_set_input_string(&parser, bytes, size);
  if (!yaml_parser_load(&parser, &document)) {
    status = base_fail(err, TD_BAD_FILE, flow->spec, (int64_t)parser.problem_offset, "is no YAML: %s",
                       parser.problem ? parser.problem : "it cannot be read");
  } else {
    reader r = {.flow = flow, .document = &document, .err = err};
    status = read_document(&r);
    yaml_document_delete(&document);
  }
  yaml_parser_delete(&parser);
  return status;
}

static td_status find(const fmt_zip *zip, base_arena *arena, const char *name, const uint8_t **bytes, size_t *size,
                      td_error *err) {
  const fmt_zip_entry *entry = fmt_zip_find(zip, base_str_of(name));
  if (!entry) return base_fail(err, TD_BAD_FILE, name, -1, "the archive has no such file");
  *size = (size_t)entry->bytes;
  return fmt_zip_read(arena, zip, entry, bytes, err);
}

/* `arena`: of the archive's bytes, which the workflow does not keep. */
static td_status read_archive(serve_workflow *flow, const char *name, const sys_mapping *archive, base_arena *arena,
                              td_error *err) {
  static const char manifest[] = "WAR-INF/MANIFEST.json";
  const uint8_t *bytes;
  const fmt_json *root;
  size_t size;
  fmt_zip zip;
  TRY(fmt_zip_open(arena, archive->bytes, archive->size, &zip, err));
  TRY(find(&zip, arena, manifest, &bytes, &size, err));
  TRY(fmt_json_read(arena, manifest, bytes, size, &root, err));
  const fmt_json *said = fmt_json_get(root, "workflow");
  const char *spec = fmt_json_text(fmt_json_get(said, "specFile"));
  const char *handler = fmt_json_text(fmt_json_get(said, "handler"));
  if (!name) name = fmt_json_text(fmt_json_get(said, "workflowName"));
  if (!name || !spec) return base_fail(err, TD_BAD_FILE, manifest, -1, "names no workflow, or no specFile");
  flow->name = base_arena_text(flow->arena, name);
  flow->spec = base_arena_text(flow->arena, spec);
  flow->handler = base_arena_text(flow->arena, handler ? handler : "");
  flow->nodes = base_new(flow->arena, workflow_node, WORKFLOW_MOST_NODES);
  if (!flow->name || !flow->spec || !flow->handler || !flow->nodes) return base_no_memory(err, "a workflow");
  TRY(find(&zip, arena, spec, &bytes, &size, err));
  return workflow_read_spec(flow, bytes, size, err);
}

td_status workflow_open(const char *name, const char *url, const char *path, serve_workflow **out, td_error *err) {
  base_arena *arena = base_arena_new(&base_libc_allocator), *own = base_arena_new(&base_libc_allocator);
  serve_workflow *flow = arena ? base_new(arena, serve_workflow, 1) : NULL;
  sys_mapping archive = {0};
  td_status status = flow && own ? sys_file_map(path, &archive, err) : base_no_memory(err, "a workflow");
  *out = NULL;
  if (status == TD_OK) {
    flow->arena = arena;
    flow->url = base_arena_text(arena, url);
    flow->path = base_arena_text(arena, path);
    status = flow->url && flow->path ? read_archive(flow, name, &archive, own, err) : base_no_memory(err, "a workflow");
    sys_unmap(&archive);
  }
  base_arena_free(own);
  if (status == TD_OK) *out = flow;
  else base_arena_free(arena);
  return status;
}

void workflow_free(serve_workflow *flow) {
  if (flow) base_arena_free(flow->arena);
}
