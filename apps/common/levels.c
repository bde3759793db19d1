/* levels.c -- the names of levels of instruction sets, from the engine's one list. */
#include "common/levels.h"

#include <string.h>

#include "base/isa.h"

/* Narrowest first. */
#define LEVEL(name, architecture, needs, ...) {needs, #name},
#define PART LEVEL
static const struct {
  uint32_t isa;
  const char *name;
} levels[] = {
#include "base/levels.def"
};

#undef LEVEL
#define LEVEL(name, ...) " " #name
const char app_levels[] =
#include "base/levels.def"
    ;

const char *app_isa_name(uint32_t isa) {
  size_t i = sizeof levels / sizeof *levels - 1;
  while (base_isa_lacks(isa, levels[i].isa)) i--;
  return levels[i].name;
}

const char *app_isa_suffix(const char *name) {
  const size_t length = strlen(name);
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    const size_t level = strlen(levels[i].name);
    const char *end = name + length - level;
    if (length > level + 1 && end[-1] == '_' && strcmp(end, levels[i].name) == 0) return end - 1;
  }
  return name + length;
}
