/* report.c -- the plan as text and as JSON. */
#include <stdio.h>

#include "common/json.h"
#include "launch.h"

static const char *const numa_names[] = {"none", "preferred", "strict"};

static void print_variables(const launch_variables *list, const char *before) {
  for (uint32_t i = 0; i < list->count; i++) printf("%s%s=%s\n", before, list->at[i].name, list->at[i].value);
}

void launch_print_plan(const launch_plan *plan, base_arena *arena) {
  const sys_topology *t = plan->machine;
  const launch_layout *l = &plan->layout;
  printf("machine: %u package%s, %u node%s, %u cores, %u CPUs of which %u allowed", t->packages,
         t->packages == 1 ? "" : "s", t->nodes, t->nodes == 1 ? "" : "s", t->cores, t->count, t->allowed);
  if (t->quota_cpus > 0) printf(", quota %g CPUs", t->quota_cpus);
  printf("\n");
  for (uint32_t i = 0; i < l->count; i++) {
    const launch_instance *in = &l->instances[i];
    const char *nodes = launch_list(arena, &in->nodes);
    printf("instance %u: CPUs %s, node%s %s, %u thread%s\n", in->index, launch_list(arena, &in->cpus),
           sys_set_count(&in->nodes) == 1 ? "" : "s", nodes, in->threads, in->threads == 1 ? "" : "s");
    print_variables(&plan->own[i], "  ");
    if (plan->logs[i]) printf("  log: %s\n", plan->logs[i]);
  }
  if (sys_set_count(&l->idle)) printf("idle: CPUs %s\n", launch_list(arena, &l->idle));
  printf("binding: %s, memory %s\n", plan->pin ? "CPUs" : "none", numa_names[plan->numa]);
  if (plan->shared.count) printf("environment:\n");
  print_variables(&plan->shared, "  ");
  if (plan->command[0]) printf("command:");
  for (char **word = plan->command; *word; word++) printf(" %s", *word);
  if (plan->command[0]) printf("\non failure: %s\n", plan->failure);
  for (uint32_t i = 0; i < l->notes.count; i++) printf("note: %s\n", l->notes.at[i]);
}

/* ---- JSON ---- */

static json_t *set_json(const sys_cpu_set *set) {
  json_t *array = json_array();
  for (uint32_t i = 0; i < SYS_MOST_CPUS; i++)
    if (sys_set_has(set, i)) app_json_set(array, NULL, json_integer(i));
  return array;
}

static json_t *variables_json(const launch_variables *list) {
  json_t *object = json_object();
  for (uint32_t i = 0; i < list->count; i++) app_json_set(object, list->at[i].name, app_json_text(list->at[i].value));
  return object;
}

static json_t *instance_json(const launch_plan *plan, uint32_t i, base_arena *arena) {
  const launch_instance *in = &plan->layout.instances[i];
  json_t *object = json_object();
  app_json_set(object, "index", json_integer(in->index));
  app_json_set(object, "cpu_list", app_json_text(launch_list(arena, &in->cpus)));
  app_json_set(object, "cpus", set_json(&in->cpus));
  app_json_set(object, "nodes", set_json(&in->nodes));
  app_json_set(object, "threads", json_integer(in->threads));
  app_json_set(object, "environment", variables_json(&plan->own[i]));
  app_json_set(object, "log", plan->logs[i] ? app_json_text(plan->logs[i]) : json_null());
  return object;
}

static json_t *machine_json(const sys_topology *t) {
  json_t *object = json_object();
  app_json_set(object, "packages", json_integer(t->packages));
  app_json_set(object, "nodes", json_integer(t->nodes));
  app_json_set(object, "cores", json_integer(t->cores));
  app_json_set(object, "cpus", json_integer(t->count));
  app_json_set(object, "allowed", json_integer(t->allowed));
  app_json_set(object, "quota_cpus", t->quota_cpus > 0 ? json_real(t->quota_cpus) : json_null());
  return object;
}

td_status launch_print_json(const launch_plan *plan, base_arena *arena, td_error *err) {
  json_t *root = json_object(), *instances = json_array(), *command = json_array(), *notes = json_array();
  for (uint32_t i = 0; i < plan->layout.count; i++) app_json_set(instances, NULL, instance_json(plan, i, arena));
  for (char **word = plan->command; *word; word++) app_json_set(command, NULL, app_json_text(*word));
  for (uint32_t i = 0; i < plan->layout.notes.count; i++)
    app_json_set(notes, NULL, app_json_text(plan->layout.notes.at[i]));
  app_json_set(root, "machine", machine_json(plan->machine));
  app_json_set(root, "instances", instances);
  app_json_set(root, "idle", set_json(&plan->layout.idle));
  app_json_set(root, "pin", json_boolean(plan->pin));
  app_json_set(root, "memory", app_json_text(numa_names[plan->numa]));
  app_json_set(root, "environment", variables_json(&plan->shared));
  app_json_set(root, "command", command);
  app_json_set(root, "on_failure", app_json_text(plan->failure));
  app_json_set(root, "notes", notes);
  return app_print_json(root, JSON_INDENT(2), err);
}
