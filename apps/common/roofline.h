/* roofline.h -- the measured limits of this machine, kept in a file. */
#ifndef COMMON_ROOFLINE_H
#define COMMON_ROOFLINE_H
#include "common/json.h"

/* The roofline for up to `threads` threads (0: all usable): as measured before, by this version on this CPU, or with
 * `fresh`, and where there is none, measured now and kept in the user's cache folder. A folder that cannot be written
 * to is no error. */
td_status app_roofline_read(uint32_t threads, bool fresh, td_roofline *roofline, td_error *err);
/* Measures again, unless a second time has changed nothing before: figures taken on a busy machine are too small. Of
 * each the larger is kept, also in the cache folder. *raised: `roofline` has changed, which is said in a line. */
td_status app_roofline_again(uint32_t threads, td_roofline *roofline, bool *raised, td_error *err);
json_t *app_roofline_json(const td_roofline *roofline);
const char *app_level_name(td_memory_level level); /* "L1", ... */
#endif
