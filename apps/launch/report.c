/* report.c -- the plan as text and as JSON. */
#include <stdio.h>

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
    if (sys_set_has(set, i)) json_array_append_new(array, json_integer(i));
  return array;
}

static json_t *variables_json(const launch_variables *list) {
  json_t *object = json_object();
  for (uint32_t i = 0; i < list->count; i++)
    json_object_set_new(object, list->at[i].name, json_string(list->at[i].value));
  return object;
}

static json_t *instance_json(const launch_plan *plan, uint32_t i, base_arena *arena) {
  const launch_instance *in = &plan->layout.instances[i];
  json_t *object = json_object();
  json_object_set_new(object, "index", json_integer(in->index));
  json_object_set_new(object, "cpu_list", json_string(launch_list(arena, &in->cpus)));
  json_object_set_new(object, "cpus", set_json(&in->cpus));
  json_object_set_new(object, "nodes", set_json(&in->nodes));
  json_object_set_new(object, "threads", json_integer(in->threads));
  json_object_set_new(object, "environment", variables_json(&plan->own[i]));
  json_object_set_new(object, "log", plan->logs[i] ? json_string(plan->logs[i]) : json_null());
  return object;
}

static json_t *machine_json(const sys_topology *t) {
  json_t *object = json_object();
  json_object_set_new(object, "packages", json_integer(t->packages));
  json_object_set_new(object, "nodes", json_integer(t->nodes));
  json_object_set_new(object, "cores", json_integer(t->cores));
  json_object_set_new(object, "cpus", json_integer(t->count));
  json_object_set_new(object, "allowed", json_integer(t->allowed));
  json_object_set_new(object, "quota_cpus", t->quota_cpus > 0 ? json_real(t->quota_cpus) : json_null());
  return object;
}

td_status launch_print_json(const launch_plan *plan, base_arena *arena, td_error *err) {
  json_t *root = json_object(), *instances = json_array(), *command = json_array(), *notes = json_array();
  for (uint32_t i = 0; i < plan->layout.count; i++) json_array_append_new(instances, instance_json(plan, i, arena));
  for (char **word = plan->command; *word; word++) json_array_append_new(command, json_string(*word));
  for (uint32_t i = 0; i < plan->layout.notes.count; i++)
    json_array_append_new(notes, json_string(plan->layout.notes.at[i]));
  json_object_set_new(root, "machine", machine_json(plan->machine));
  json_object_set_new(root, "instances", instances);
  json_object_set_new(root, "idle", set_json(&plan->layout.idle));
  json_object_set_new(root, "pin", json_boolean(plan->pin));
  json_object_set_new(root, "memory", json_string(numa_names[plan->numa]));
  json_object_set_new(root, "environment", variables_json(&plan->shared));
  json_object_set_new(root, "command", command);
  json_object_set_new(root, "on_failure", json_string(plan->failure));
  json_object_set_new(root, "notes", notes);
  const bool printed = root && json_dumpf(root, stdout, JSON_INDENT(2)) == 0 && putchar('\n') != EOF;
  json_decref(root);
  return printed ? TD_OK : base_fail(err, TD_NO_RESOURCE, NULL, -1, "the plan cannot be printed");
}
