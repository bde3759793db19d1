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

/* The bytes of a key of less than a word: all of them, some perhaps twice. */
static uint64_t short_word(base_str key) {
  const unsigned char *at = (const unsigned char *)key.at;
  uint32_t first = 0, last = 0;
  if (key.length >= sizeof first) {
    memcpy(&first, at, sizeof first);
    memcpy(&last, at + key.length - sizeof last, sizeof last);
  } else if (key.length) {
    first = at[0] | (uint32_t)at[key.length / 2] << 8 | (uint32_t)at[key.length - 1] << 16;
  }
  return (uint64_t)last << 32 | first;
}

/* Words at a time, the last one with what the one before has too, by a factor that no file knows. */
static uint32_t hash_of(base_str key, uint64_t seed) {
  uint64_t h = seed ^ key.length, word = 0;
  if (key.length < sizeof word) word = short_word(key);
  else memcpy(&word, key.at + key.length - sizeof word, sizeof word);
  for (size_t at = 0; at + sizeof word < key.length; at += sizeof word) {
    uint64_t next;
    memcpy(&next, key.at + at, sizeof next);
    h = fold(h ^ next, seed);
  }
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
