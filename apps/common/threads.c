/* threads.c -- how many threads, and who says so: the option, the environment, or what the system allows. */
#include "common/threads.h"

#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

/* A number of threads in a variable; "4,2" of OpenMP is one for each nesting level. 0: none. */
static int64_t from_variable(const char *name) {
  const char *text = getenv(name);
  int64_t count;
  const bool is_count = text && base_str_int((base_str){text, strcspn(text, ", ")}, &count) && count >= 1;
  return is_count && count <= 4096 ? count : 0;
}

td_status app_threads_of(uint32_t asked, app_threads *threads, td_error *err) {
  static const char *const others[] = {"OMP_NUM_THREADS", "MKL_NUM_THREADS"};
  *threads = (app_threads){asked, "--threads"};
  if (asked) return TD_OK;
  const char *own = getenv("TREADLE_NUM_THREADS");
  *threads = (app_threads){(uint32_t)from_variable("TREADLE_NUM_THREADS"), "TREADLE_NUM_THREADS"};
  if (own && *own && !threads->count)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "TREADLE_NUM_THREADS '%s': 1 to 4096 are allowed", own);
  for (size_t i = 0; i < 2 && !threads->count; i++) {
    const uint32_t most = sys_threads_read();
    *threads = (app_threads){(uint32_t)from_variable(others[i]), others[i]};
    if (threads->count > most) threads->count = most; /* they are for other programs, too, on other machines */
  }
  if (!threads->count) threads->variable = NULL;
  return TD_OK;
}
