/* version.c -- `treadle version`. */
#include "cli.h"

#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define HEADER_VERSION TEXT(TD_VERSION_MAJOR) "." TEXT(TD_VERSION_MINOR) "." TEXT(TD_VERSION_PATCH)

static td_status run_version(cli_args *args, td_error *err) {
  const char *library = td_version();
  if (cli_flag(args, "json")) {
    json_t *root = json_object();
    app_json_set(root, "version", app_json_text(HEADER_VERSION));
    app_json_set(root, "library", app_json_text(library));
    return app_print_json(root, APP_JSON, err);
  }
  printf("treadle %s", HEADER_VERSION);
  if (strcmp(library, HEADER_VERSION) != 0) printf(" (library %s)", library);
  printf("\n");
  return TD_OK;
}

static const cli_option version_options[] = {CLI_OPTION_JSON};

const cli_command cli_version = {
    .name = "version",
    .operands = "",
    .summary = "print the version",
    .options = version_options,
    .option_count = sizeof version_options / sizeof *version_options,
    .run = run_version,
};
