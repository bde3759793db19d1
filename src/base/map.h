/* map.h -- a hash map from byte strings to 32-bit numbers, in an arena. Keys are borrowed and must outlive the map. */
#ifndef BASE_MAP_H
#define BASE_MAP_H
#include "base/text.h"

typedef struct base_map_slot {
  base_str key;
  uint32_t hash, value;
  bool used;
} base_map_slot;

/* Start zeroed. Open addressing, linear probing, never full. The hash is seeded by where the table came to lie,
 * so that no file can choose names that collide. */
typedef struct base_map {
  base_map_slot *slots;
  uint32_t count, cap; /* cap: a power of two, or 0 */
  uint64_t seed;
} base_map;

/* The value of `key`, or NULL. Valid until the next put. */
uint32_t *base_map_get(const base_map *map, base_str key);
/* Sets `key`. `*existed` (may be NULL) tells whether an older value was replaced. False: out of memory. */
bool base_map_put(base_map *map, base_arena *arena, base_str key, uint32_t value, bool *existed);
/* FNV-1a. */
uint64_t base_hash(const void *bytes, size_t count, uint64_t seed);
#endif
