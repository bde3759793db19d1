/* use.c -- a program outside the source tree: is the installed header usable, does the library answer, is it the right
 * one? */
#include <stdio.h>
#include <string.h>
#include <treadle/defaults.h>
#include <treadle/treadle.h>

int main(void) {
  char version[32];
  snprintf(version, sizeof version, "%d.%d.%d", TD_VERSION_MAJOR, TD_VERSION_MINOR, TD_VERSION_PATCH);
  if (strcmp(td_version(), version) != 0) return 1;
  td_load_options options = {.size = sizeof options, .cc = "/mine"};
  td_defaults defaults;
  td_load_defaults(&options, &defaults);
  if (strcmp(options.cc, "/mine") != 0 || (getenv("HOME") && !options.cache)) return 1;
  td_error err;
  td_model *model;
  td_status status = td_model_load("no such file.onnx", NULL, &model, &err);
  printf("treadle %s: %s: %s\n", td_version(), td_status_name(status), err.text);
  return status == TD_BAD_FILE ? 0 : 1;
}
