/* workflow.c -- TorchServe's workflows: registered, listed, deleted, and asked. Registering one loads the models and
 * functions that it names, each as a model WORKFLOW__NODE of the table. A request is a flight: for each node whose
 * replies are all there a job of that model, as if its client had sent it; a flight lives on the client's loop
 * alone. */
#include "workflow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the table ---- */

static serve_workflow *find_workflow(const serve_server *server, const char *name) {
  for (uint32_t i = 0; i < server->workflow_count; i++)
    if (strcmp(server->workflows[i]->name, name) == 0) return server->workflows[i];
  return NULL;
}

static serve_workflow *asked_workflow(serve_job *job, const char *name) {
  serve_workflow *flow = find_workflow(job->server, name);
  if (!flow) serve_refuse_as(job, 404, "WorkflowNotFoundException", "Workflow not found: %s", name);
  return flow;
}

static void release(serve_workflow *flow) {
  if (!--flow->refs) workflow_free(flow);
}

/* Sorted by name. False: out of memory. */
static bool insert(serve_server *server, serve_workflow *flow) {
  uint32_t at = server->workflow_count;
  serve_workflow **longer = realloc(server->workflows, (at + 1) * sizeof(serve_workflow *));
  if (!longer) return false;
  for (; at && strcmp(longer[at - 1]->name, flow->name) > 0; at--) longer[at] = longer[at - 1];
  longer[at] = flow;
  server->workflows = longer;
  server->workflow_count++;
  flow->refs++;
  return true;
}

void serve_free_workflows(serve_server *server) {
  for (uint32_t i = 0; i < server->workflow_count; i++) workflow_free(server->workflows[i]);
  free(server->workflows);
}

/* ---- register ---- */

typedef struct order {
  const char *name, *url, *path;
  serve_config config;
  serve_workflow *flow;
  serve_version *versions[WORKFLOW_MOST_NODES]; /* of its nodes; loaded, not yet in the table */
  td_status status;
  td_error err;
} order;

static td_status load_node(const order *o, serve_server *server, base_arena *arena, uint32_t index, serve_version **out,
                           td_error *err) {
  const workflow_node *node = &o->flow->nodes[index];
  if (!node->url) {
    const char *function = base_arena_format(arena, "%s:%s", o->flow->handler, node->name);
    if (!function) return base_no_memory(err, "a workflow");
    TRY(serve_load_function(server, node->model, o->url, o->path, function, out, err));
  } else {
    const char *path = serve_store_path(server, arena, node->url);
    if (!path)
      return base_fail(err, TD_BAD_FILE, node->url, -1, "is no file of the model store, and nothing is fetched");
    TRY(serve_load(server, node->model, node->url, path, out, err));
  }
  if (!(*out)->python && (node->before & (node->before - 1)))
    return base_fail(err, TD_UNSUPPORTED, node->name, -1,
                     "gets the replies of several nodes, which a model without a Python handler cannot take");
  serve_configure(*out, &node->config);
  serve_configure(*out, &o->config);
  return serve_scale(*out, (*out)->max_workers, err);
}

static void free_all(order *o) {
  for (uint32_t i = 0; o->flow && i < o->flow->count; i++) serve_free_version(o->versions[i]);
  workflow_free(o->flow);
  o->flow = NULL;
}

static void load(serve_job *job) {
  order *o = job->order;
  o->status = workflow_open(o->name, o->url, o->path, &o->flow, &o->err);
  for (uint32_t i = 0; o->status == TD_OK && i < o->flow->count; i++)
    o->status = load_node(o, job->server, job->arena, i, &o->versions[i], &o->err);
  if (o->status != TD_OK) {
    free_all(o);
    serve_hide_store(job->server, &o->err);
  }
  serve_done(job);
}

static void free_loaded(serve_job *job) {
  free_all(job->order);
  serve_done(job);
}

/* What is loaded stays out: the loader frees it, and the job comes back once more. */
static serve_job *give_up(serve_job *job) {
  job->finish = NULL;
  serve_order(job, free_loaded);
  return NULL;
}

static bool is_taken(serve_job *job, const order *o) {
  const serve_workflow *flow = o->flow;
  if (find_workflow(job->server, flow->name)) {
    serve_refuse(job, 409, "Workflow %s is already registered.", flow->name);
    return true;
  }
  for (uint32_t i = 0; i < flow->count; i++)
    if (serve_find_version(job->server, o->versions[i]->name, o->versions[i]->number)) {
      serve_refuse(job, 409, "Model version %s is already registered for model %s", o->versions[i]->number,
                   o->versions[i]->name);
      return true;
    }
  return false;
}

static void remove_models(serve_server *server, const serve_workflow *flow) {
  for (uint32_t i = 0; i < flow->count; i++) {
    serve_model *m = serve_find_model(server, flow->nodes[i].model);
    for (uint32_t left = m ? m->count : 0; left; left--) serve_remove_version(server, m, left - 1);
  }
}

/* False: out of memory, and none is there. */
static bool add_all(serve_job *job, order *o) {
  for (uint32_t i = 0; i < o->flow->count; i++) {
    if (serve_add_version(job->server, o->versions[i], &o->err) != TD_OK) {
      remove_models(job->server, o->flow);
      return false;
    }
    o->versions[i] = NULL; /* the table's */
  }
  if (insert(job->server, o->flow)) return true;
  remove_models(job->server, o->flow);
  return false;
}

static serve_job *registered(serve_job *job) {
  order *o = job->order;
  if (!o->flow) {
    serve_fail(job, o->status, &o->err);
  } else if (is_taken(job, o)) {
    return give_up(job);
  } else if (!add_all(job, o)) {
    serve_refuse(job, 507, "out of memory");
    return give_up(job);
  } else {
    serve_answer(job, 200, "{\n  \"status\": \"Workflow %s has been registered and scaled successfully.\"\n}\n",
                 o->flow->name);
  }
  return job;
}

bool serve_register_workflow(serve_job *job, char **parts) {
  (void)parts;
  const struct fmt_json *body;
  order *o = base_new(job->arena, order, 1);
  if (!o) {
    serve_refuse(job, 507, "out of memory");
    return true;
  }
  *o = (order){.config = SERVE_SAYS_NOTHING, .err = {.offset = -1}};
  if (!serve_read_parameters(job, &body) ||
      !serve_number(job, body, "response_timeout", 1, 86400, -1, &o->config.timeout_s) ||
      !serve_number(job, body, "startup_timeout", 1, 86400, -1, &o->config.start_s))
    return true;
  o->url = serve_parameter(job, body, "url");
  o->name = serve_parameter(job, body, "workflow_name");
  if (!o->url) {
    serve_refuse(job, 400, "Parameter url is required.");
    return true;
  }
  o->path = serve_workflow_path(job->server, job->arena, o->url);
  if (!o->path || access(o->path, F_OK) != 0) {
    serve_refuse_as(job, 404, "WorkflowNotFoundException",
                    "Workflow not found in workflow store: %s; nothing is fetched from elsewhere", o->url);
    return true;
  }
  job->order = o;
  job->finish = registered;
  serve_order(job, load);
  return false;
}

/* ---- list, describe, delete ---- */

static const char *workflow_entry(const serve_server *server, uint32_t i, const char **url) {
  *url = server->workflows[i]->url;
  return server->workflows[i]->name;
}

bool serve_list_workflows(serve_job *job, char **parts) {
  (void)parts;
  return serve_answer_page(job, "workflow", job->server->workflow_count, workflow_entry);
}

bool serve_describe_workflow(serve_job *job, char **parts) {
  const serve_workflow *flow = asked_workflow(job, parts[0]);
  if (!flow) return true;
  base_text *to = &job->reply;
  base_text_print(to, "[\n  {\n    \"workflowName\": \"%s\",\n    \"workflowUrl\": ", flow->name);
  base_text_quote(to, flow->url, strlen(flow->url));
  base_text_print(
      to,
      ",\n    \"minWorkers\": %lld,\n    \"maxWorkers\": %lld,\n    \"batchSize\": %lld,\n    \"maxBatchDelay\": "
      "%lld,\n    \"workflowDag\": ",
      (long long)flow->min_workers, (long long)flow->max_workers, (long long)flow->batch, (long long)flow->delay_ms);
  base_text_quote(to, flow->dag, strlen(flow->dag));
  serve_answer(job, 200, "\n  }\n]\n");
  return true;
}

bool serve_unregister_workflow(serve_job *job, char **parts) {
  serve_server *server = job->server;
  serve_workflow *flow = asked_workflow(job, parts[0]);
  uint32_t at = 0;
  if (!flow) return true;
  while (server->workflows[at] != flow) at++;
  server->workflow_count--;
  memmove(&server->workflows[at], &server->workflows[at + 1], (server->workflow_count - at) * sizeof(serve_workflow *));
  remove_models(server, flow);
  serve_answer(job, 200, "{\n  \"status\": \"Workflow \\\"%s\\\" unregistered\"\n}\n", flow->name);
  release(flow);
  return true;
}

/* ---- a request ---- */

/* A node's turn. Its job, with the reply, stays until the flight is over: others read that. */
typedef struct step {
  serve_job job;
  serve_flight *flight;
  uint32_t index, tries;
  bool is_out; /* the job is in a queue, or computed */
} step;

struct serve_flight {
  serve_job *job; /* of the client */
  serve_workflow *flow;
  uint64_t begun, done;     /* nodes that have had their turn, and whose replies are there */
  uint32_t out;             /* jobs that are to come back */
  const step *failed;       /* NULL: none has */
  bool is_waiting, is_over; /* is_waiting: the client's request is in flight */
  uint64_t begun_ns;
  step *steps;
};

static void free_steps(serve_flight *flight) {
  for (uint32_t i = 0; i < flight->flow->count; i++) {
    serve_job *job = &flight->steps[i].job;
    job->body = NULL; /* borrowed */
    if (job->server) serve_free_job(job);
  }
}

static bool is_json(const serve_job *job) { return job->type && !strncmp(job->type, "application/json", 16); }

/* The replies that no node gets: one as it is, several by the names of their nodes. */
static void reply(serve_flight *flight) {
  const serve_workflow *flow = flight->flow;
  serve_job *job = flight->job;
  uint32_t leaves = 0;
  const serve_job *last = NULL;
  for (uint32_t i = 0; i < flow->count; i++) {
    if (flow->nodes[i].after) continue;
    last = &flight->steps[i].job;
    leaves++;
  }
  job->status = 200;
  if (leaves == 1) {
    const char *type = base_arena_text(job->arena, last->type);
    job->status = last->status;
    if (type) job->type = type;
    base_text_add(&job->reply, last->reply.at, last->reply.length);
    return;
  }
  base_text_print(&job->reply, "{");
  for (uint32_t i = 0, told = 0; i < flow->count; i++) {
    const serve_job *leaf = &flight->steps[i].job;
    if (flow->nodes[i].after) continue;
    base_text_print(&job->reply, "%s\n  \"%s\": ", told++ ? "," : "", flow->nodes[i].name);
    if (is_json(leaf)) base_text_add(&job->reply, leaf->reply.at, leaf->reply.length);
    else serve_quote(&job->reply, (base_str){leaf->reply.at, leaf->reply.length});
  }
  base_text_print(&job->reply, "\n}\n");
}

/* What passes by itself says so; else TorchServe's words. */
static void refuse(serve_flight *flight) {
  const serve_job *job = &flight->failed->job;
  const char *name = flight->flow->nodes[flight->failed->index].name;
  const td_error err = {.offset = -1};
  if (__atomic_load_n(&flight->job->cancel, __ATOMIC_RELAXED)) {
    serve_fail(flight->job, TD_CANCELLED, &err);
  } else if (job->is_full || job->is_over) {
    flight->job->is_full = job->is_full;
    serve_refuse(flight->job, 503, "node %s has no room for the request: try again later", name);
  } else if (job->status == 504) {
    serve_refuse(flight->job, 504, "node %s did not reply in its time (timeout-ms)", name);
  } else {
    serve_refuse(flight->job, 500, "Error executing %s", name);
  }
}

/* The client's job, where its request is in flight. */
static serve_job *end_flight(serve_flight *flight) {
  serve_job *job = flight->job;
  flight->is_over = true;
  if (flight->failed) {
    flight->flow->failed += !__atomic_load_n(&job->cancel, __ATOMIC_RELAXED);
    refuse(flight);
  } else {
    reply(flight);
    serve_count(&flight->flow->time, sys_clock_ns() - flight->begun_ns);
  }
  free_steps(flight);
  release(flight->flow);
  job->flight = NULL;
  return flight->is_waiting ? job : NULL;
}

static serve_job *come_back(serve_job *job);

/* The replies that the node gets; the first nodes get what the client has sent. False: out of memory. */
static bool give_inputs(step *s) {
  const serve_flight *flight = s->flight;
  const uint64_t before = flight->flow->nodes[s->index].before;
  serve_job *job = &s->job;
  const serve_job *from = flight->job;
  uint32_t count = 0;
  if (!before) {
    job->body = from->body;
    job->count = from->count;
    return true;
  }
  serve_named *named = base_new(job->arena, serve_named, (size_t)__builtin_popcountll(before));
  if (!named) return false;
  for (uint32_t i = 0; i < flight->flow->count; i++) {
    if (!(before >> i & 1)) continue;
    const base_text *text = &flight->steps[i].job.reply;
    const bool alone = before == (uint64_t)1 << i;
    named[count++] = (serve_named){alone ? BASE_STR("body") : base_str_of(flight->flow->nodes[i].name),
                                   {text->length ? text->at : "", text->length}};
    job->body = text->at; /* of what takes no names */
    job->count = text->length;
  }
  job->named = named;
  job->named_count = count;
  job->is_raw = true;
  return true;
}

/* Has the node's model compute it. False: it has failed already. */
static bool send(step *s) {
  serve_flight *flight = s->flight;
  const workflow_node *node = &flight->flow->nodes[s->index];
  const serve_job *from = flight->job;
  serve_job *job = &s->job;
  *job = (serve_job){.owner = s, .finish = come_back, .client = from->client, .json_count = -1, .is_torch = true};
  serve_begin_job(job, from->loop);
  job->type = "application/json";
  job->limit_ns = node->limit_ns;
  job->fields = from->fields;
  job->field_count = from->field_count;
  job->arena = base_arena_new(&job->memory);
  s->tries++;
  if (!job->arena || !give_inputs(s)) {
    serve_refuse(job, job->is_over ? 503 : 507, "out of memory");
    return false;
  }
  if (!serve_find_turn(job, node->model, NULL) || serve_predict(job)) return false;
  s->is_out = true;
  flight->out++;
  return true;
}

/* The first failure ends what is under way. */
static void fail(step *s) {
  serve_flight *flight = s->flight;
  if (flight->failed) return;
  flight->failed = s;
  serve_cancel_flight(flight);
}

/* Sends what can be sent; the flight is over where nothing is under way then: as end_flight. */
static serve_job *go_on(serve_flight *flight) {
  for (uint32_t i = 0; i < flight->flow->count && !flight->failed; i++) {
    const uint64_t own = (uint64_t)1 << i;
    if ((flight->begun & own) || (flight->flow->nodes[i].before & ~flight->done)) continue;
    flight->begun |= own;
    if (!send(&flight->steps[i])) fail(&flight->steps[i]);
  }
  return flight->out ? NULL : end_flight(flight);
}

static serve_job *come_back(serve_job *job) {
  step *s = job->owner;
  serve_flight *flight = s->flight;
  const bool is_left = __atomic_load_n(&flight->job->cancel, __ATOMIC_RELAXED);
  s->is_out = false;
  flight->out--;
  if (job->status >= 200 && job->status < 300 && !job->reply.failed) {
    flight->done |= (uint64_t)1 << s->index;
  } else if (!flight->failed && !is_left && s->tries <= flight->flow->nodes[s->index].retries) {
    job->body = NULL;
    serve_free_job(job);
    if (!send(s)) fail(s);
  } else {
    fail(s);
  }
  if (is_left) fail(s);
  return go_on(flight);
}

void serve_cancel_flight(serve_flight *flight) {
  for (uint32_t i = 0; i < flight->flow->count; i++)
    if (flight->steps[i].is_out) serve_cancel(&flight->steps[i].job);
}

bool serve_ask_workflow(serve_job *job, char **parts) {
  serve_workflow *flow = asked_workflow(job, parts[0]);
  if (!flow) return true;
  serve_flight *flight = base_new(job->arena, serve_flight, 1);
  step *steps = flight ? base_new(job->arena, step, flow->count) : NULL;
  if (!steps) {
    serve_refuse(job, 507, "out of memory");
    return true;
  }
  *flight = (serve_flight){.job = job, .flow = flow, .steps = steps, .begun_ns = sys_clock_ns()};
  for (uint32_t i = 0; i < flow->count; i++) steps[i] = (step){.flight = flight, .index = i};
  flow->refs++;
  job->flight = flight;
  go_on(flight);
  flight->is_waiting = !flight->is_over;
  return flight->is_over;
}
