/* kept.h -- what was found out on this machine, in files of the user's caches; and folders. */
#ifndef COMMON_KEPT_H
#define COMMON_KEPT_H
#include "base/base.h"

/* Makes the folders of `path` that are missing; who then writes there sees what failed. */
void app_make_folders(char *path);

/* What was found out on this machine, in a file of the user's caches. The caller writes into `key` what it depends on.
 */
typedef struct app_kept {
  char folder[1024], path[1100], key[640];
} app_kept;
/* Finds the file: KIND-HASH.ENDING. False: the user has no cache folder, which app_no_cache says. */
bool app_kept_place(app_kept *k, const char *kind, const char *ending);
/* Two lines, the key and a text. Reading is false where there is none, or it is another key's; writing is beside and
 * renamed, so that a reader sees the whole file or none. */
bool app_kept_read(const app_kept *k, char *text, int size);
td_status app_kept_write(app_kept *k, const char *text, td_error *err);
td_status app_no_cache(td_error *err);
#endif
