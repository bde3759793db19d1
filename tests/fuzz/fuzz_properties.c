/* config.properties: addresses are whole, numbers within their bounds, and texts may be header fields where they are
 * to be. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_sound(const serve_options *o) {
  for (int i = 0; i < SERVE_ADDRESSES; i++)
    assert(memchr(o->addresses[i].host, 0, sizeof o->addresses[i].host) && o->addresses[i].roles == 1);
  for (int i = 0; i < SERVE_CORS; i++)
    for (const char *at = o->cors[i]; at && *at; at++) assert(*at >= ' ' && *at <= '~');
  assert(o->queue >= 0 && o->queue <= 65536 && o->timeout_s >= 0 && o->most_bytes >= 0 && o->most_held >= 0);
  assert(o->start_workers >= 0 && o->start_workers <= SERVE_MOST_WORKERS && (o->model_api | o->no_tokens) <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  uint8_t *copy = malloc(size ? size : 1); /* of its own, so that a byte beyond it is found */
  serve_options options = {0};
  td_error err = {.offset = -1};
  if (!arena || !copy) abort();
  if (size) memcpy(copy, data, size);
  for (int i = 0; i < SERVE_ADDRESSES; i++) options.addresses[i].roles = 1;
  if (serve_read_properties(copy, size, arena, &options, &err) == TD_OK) expect_sound(&options);
  else assert(err.text[0]);
  free(copy);
  base_arena_free(arena);
  return 0;
}
