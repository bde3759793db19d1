/* map.c -- open addressing with linear probing; the table is a power of two, never full, so that a probe always ends.
 * Most maps are of few names and there are many of them: the first table has room for three. */
#include "base/map.h"

#include <string.h>

uint64_t base_hash(const void *bytes, size_t count, uint64_t seed) {
  const unsigned char *at = bytes;
  uint64_t h = seed ^ 0xcbf29ce484222325u;
  for (size_t i = 0; i < count; i++) h = (h ^ at[i]) * 0x100000001b3u;
  return h ^ (h >> 32);
}

enum { FIRST_CAP = 4 };

/* Both halves of a product, one over the other. */
static uint64_t fold(uint64_t x, uint64_t y) {
  __extension__ const unsigned __int128 product = (unsigned __int128)x * y;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Words at a time, by a factor that no file knows. */
static uint32_t hash_of(base_str key, uint64_t seed) {
  uint64_t h = seed ^ key.length, word = 0;
  size_t at = 0;
  for (; key.length - at >= sizeof word; at += sizeof word) {
    memcpy(&word, key.at + at, sizeof word);
    h = fold(h ^ word, seed);
  }
  word = 0;
  for (int shift = 0; at < key.length; shift += 8) word |= (uint64_t)(unsigned char)key.at[at++] << shift;
  h = fold(h ^ word, seed);
  return (uint32_t)(h ^ h >> 32);
}

static base_map_slot *find(const base_map *map, base_str key, uint32_t hash) {
  uint32_t mask = map->cap - 1;
  for (uint32_t i = hash & mask;; i = (i + 1) & mask) {
    base_map_slot *slot = &map->slots[i];
    if (!slot->used || (slot->hash == hash && base_str_equal(slot->key, key))) return slot;
  }
}

uint32_t *base_map_get(const base_map *map, base_str key) {
  if (!map->count) return NULL;
  base_map_slot *slot = find(map, key, hash_of(key, map->seed));
  return slot->used ? &slot->value : NULL;
}

static bool grow(base_map *map, base_arena *arena) {
  if (map->cap > UINT32_MAX / 4) return false;
  base_map larger = {.cap = map->cap ? map->cap * 2 : FIRST_CAP, .count = map->count, .seed = map->seed};
  larger.slots = base_new(arena, base_map_slot, larger.cap);
  if (!larger.slots) return false;
  if (!map->count) larger.seed = (uint64_t)(uintptr_t)larger.slots * 0x9e3779b97f4a7c15u | 1;
  for (uint32_t i = 0; i < map->cap; i++)
    if (map->slots[i].used) *find(&larger, map->slots[i].key, map->slots[i].hash) = map->slots[i];
  *map = larger;
  return true;
}

bool base_map_put(base_map *map, base_arena *arena, base_str key, uint32_t value, bool *existed) {
  if (map->count >= map->cap - map->cap / 4 && !grow(map, arena)) return false;
  uint32_t hash = hash_of(key, map->seed);
  base_map_slot *slot = find(map, key, hash);
  if (existed) *existed = slot->used;
  if (!slot->used) map->count++;
  *slot = (base_map_slot){.key = key, .hash = hash, .value = value, .used = true};
  return true;
}
