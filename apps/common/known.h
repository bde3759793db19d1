/* known.h -- the names that this build of the library knows. */
#ifndef COMMON_KNOWN_H
#define COMMON_KNOWN_H
#include "base/base.h"

typedef BASE_VEC(const char *) app_name_vec;
/* The names that this build has under `key` of td_capabilities, "passes" or "kernels", in its order. */
td_status app_known_names(base_arena *arena, const char *key, app_name_vec *names, td_error *err);
#endif
