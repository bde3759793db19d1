/* levels.h -- levels of instruction sets by name (base/levels.def). */
#ifndef COMMON_LEVELS_H
#define COMMON_LEVELS_H
#include "base/base.h"

/* All, a blank in front of each, narrowest first. */
extern const char app_levels[];
/* The name of the widest level of instruction sets among BASE_ISA_* bits. */
const char *app_isa_name(uint32_t isa);
/* Where a kernel's name goes on with the level that it is of: "_avx2". */
const char *app_isa_suffix(const char *name);
#endif
