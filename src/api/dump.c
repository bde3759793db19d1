/* dump.c -- what a model becomes on its way, for people: graphs that can be edited and run, loops, code, plan, times.
 * The library writes no files: it tells their names and contents. */
#include "api/api_priv.h"

#include <stdio.h>
#include <string.h>

struct api_dump {
  const td_model *model;
  const api_variant *variant; /* NULL: the general plan */
  ir_store store;             /* elements of all graphs: graph.weights */
  uint32_t written;           /* of its tensors */
  uint32_t stages;            /* graphs so far */
  uint64_t since;             /* when the last one was done */
  base_text timings;          /* lines "NAME MS" */
  td_error *err;
};

/* What variants become is in a folder of their own, which their sizes name. */
static td_status tell(const api_dump *d, const char *name, const char *bytes, size_t count) {
  char path[512];
  if (!d->variant) return d->model->options.dump(d->model->options.dump_user, name, bytes, count);
  const int length = snprintf(path, sizeof path, "%s/%s", d->variant->label, name);
  if (length < 0 || (size_t)length >= sizeof path)
    return base_fail(d->err, TD_NO_RESOURCE, NULL, -1, "the name of a file is too long: %.80s...", path);
  for (char *c = path; *c && (c - path) < length - (int)strlen(name) - 1; c++)
    *c = (char)(*c == ' ' ? ',' : *c == '/' || *c == '.' ? '_' : *c);
  return d->model->options.dump(d->model->options.dump_user, path, bytes, count);
}

static td_status tell_weights(void *user, const char *bytes, size_t count) {
  return tell(user, "graph.weights", bytes, count);
}

static td_status tell_text(api_dump *d, const char *name, base_text *text) {
  td_status status =
      text->failed ? base_no_memory(d->err, name) : tell(d, name, text->at ? text->at : "", text->length);
  base_text_free(text);
  return status;
}

static void note_time(api_dump *d, const char *stage) {
  base_text_print(&d->timings, "%-16s %10.3f ms\n", stage, (double)(sys_clock_ns() - d->since) * 1e-6);
}

api_dump *api_dump_new(const td_model *model, const api_variant *variant, td_error *err) {
  api_dump *d = base_new(model->arena, api_dump, 1);
  if (d)
    *d = (api_dump){.model = model,
                    .variant = variant,
                    .store = {.arena = model->arena},
                    .since = sys_clock_ns(),
                    .timings = {.allocator = &model->allocator},
                    .err = err};
  return d;
}

void api_dump_free(api_dump *dump) {
  if (dump) base_text_free(&dump->timings);
}

/* The loops of the graph as text, behind it: nodes hold them as numbers. */
static td_status add_loops(const ir_graph *graph, base_text *text, td_error *err) {
  base_text loops = {.allocator = text->allocator};
  const td_status status = fuse_print(graph, &(fuse_setting){0}, &loops, err);
  for (size_t at = 0, end; status == TD_OK && at < loops.length; at = end) {
    for (end = at; end < loops.length && loops.at[end++] != '\n';) continue;
    base_text_add(text, "// ", 3);
    base_text_add(text, loops.at + at, end - at);
  }
  base_text_free(&loops);
  return status;
}

td_status api_dump_graph(void *user, const char *stage, const ir_graph *graph, td_error *err) {
  api_dump *d = user;
  char name[96] = "graph.tdir";
  base_text body = {.allocator = &d->model->allocator}, text = body;
  note_time(d, stage);
  if (d->stages) snprintf(name, sizeof name, "graph.%02u-%s.tdir", d->stages, stage);
  d->stages++;
  const bool printed = ir_print_stored(graph, &d->store, &body) == TD_OK;
  base_text_print(&text, "tdir 1\n");
  if (d->store.bytes) base_text_print(&text, "weights \"graph.weights\" %zu\n", d->store.bytes);
  if (printed) base_text_add(&text, body.at ? body.at : "", body.length);
  base_text_free(&body);
  td_status status = printed ? add_loops(graph, &text, err) : base_no_memory(err, name);
  if (status == TD_OK) status = tell_text(d, name, &text);
  else base_text_free(&text);
  if (status == TD_OK) status = ir_store_write(&d->store, d->written, tell_weights, d, err);
  d->written = d->store.tensors.count;
  d->since = sys_clock_ns();
  return status;
}

td_status api_dump_code(void *user, const char *name, const char *bytes, size_t count) {
  return tell(user, name, bytes, count);
}

/* The loops, and each decision on them: made once more, of the imported graph. */
static td_status tell_loops(api_dump *d) {
  const td_model *m = d->model;
  const compile_setting setting = api_setting(m);
  base_text text = {.allocator = &m->allocator}, marked = text;
  ir_graph *graph = NULL;
  td_status status = api_prepare((td_model *)(uintptr_t)m, d->variant, false, &graph, d->err);
  if (status != TD_OK) return status;
  status = compile_explain_loops(graph, &setting, true, &m->allocator, &text, d->err);
  if (status == TD_OK && text.failed) status = base_no_memory(d->err, "loops.txt");
  if (status == TD_OK) {
    fuse_mark(&text, &marked);
    status = tell_text(d, "loops.txt", &marked);
  }
  base_text_free(&text);
  ir_graph_free(graph);
  return status;
}

td_status api_dump_plan(api_dump *d, const plan_exe *of) {
  base_text plan = {.allocator = &d->model->allocator}, dot = plan;
  note_time(d, "plan");
  if (plan_print(of, &plan) != TD_OK) plan.failed = true;
  TRY(tell_text(d, "plan.txt", &plan));
  if (plan_print_dot(of, &dot) != TD_OK) dot.failed = true;
  TRY(tell_text(d, "plan.dot", &dot));
  TRY(tell_loops(d));
  return tell_text(d, "timings.txt", &d->timings);
}
