/* main.c -- `treadle-launch`: plans instances of a program, prints the plan or runs it. */
#include <stdio.h>
#include <string.h>

#include "launch.h"

static td_status launch(int count, char **words, base_arena *arena, int *code, td_error *err) {
  launch_words given;
  launch_request request;
  sys_topology machine;
  launch_plan plan = {.machine = &machine};
  TRY(launch_parse(count, words, arena, &given, err));
  if (given.given[LAUNCH_HELP]) {
    launch_print_help();
    return TD_OK;
  }
  const char *elsewhere = given.given[LAUNCH_MACHINE];
  TRY(elsewhere ? sys_topology_load(elsewhere, arena, &machine, err) : sys_topology_read("", arena, &machine, err));
  TRY(launch_read_request(&given, &request, err));
  TRY(launch_lay_out(&machine, &request, arena, &plan.layout, err));
  TRY(launch_make_environment(&given, arena, &plan, err));
  if (given.given[LAUNCH_JSON]) return launch_print_json(&plan, arena, err);
  if (given.given[LAUNCH_DRY]) {
    launch_print_plan(&plan, arena);
    return TD_OK;
  }
  for (uint32_t i = 0; i < plan.layout.notes.count; i++)
    fprintf(stderr, "treadle launch: %s\n", plan.layout.notes.at[i]);
  return launch_run(&plan, arena, code, err);
}

int main(int count, char **words) {
  td_error err = {.offset = -1};
  int code = 0;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  if (!arena) return TD_NO_RESOURCE;
  const td_status status = launch(count - 1, words + 1, arena, &code, &err);
  if (status != TD_OK) {
    fprintf(stderr, "treadle: launch: %s%s%s\n", err.name, *err.name ? ": " : "", err.text);
    code = (int)status;
  } else if (fflush(stdout) != 0 || ferror(stdout)) {
    fprintf(stderr, "treadle: launch: standard output cannot be written\n");
    code = TD_NO_RESOURCE;
  }
  base_arena_free(arena);
  return code;
}
