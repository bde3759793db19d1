/* Frames of HTTP/2 that pass by resets.c: however the bytes are cut, the same ones come out, and they are what a plain
 * reading of the whole says: all but the early resets, and of those no more than are passed over. The first byte says
 * where the bytes are cut, the second how many there are before the first frame. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "resets.h"

enum { HEAD = 9, HEADERS = 1, RST_STREAM = 3, MOST_EARLY = 1000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is to come out, into `out`: nothing of a head that is not whole. The number of its bytes. */
static size_t read_whole(const uint8_t *bytes, size_t size, size_t before, uint8_t *out) {
  uint32_t newest = 0, early = 0;
  size_t at = before < size ? before : size, count = at;
  memcpy(out, bytes, at);
  while (size - at >= HEAD) {
    const uint8_t *head = bytes + at;
    const size_t length = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
    const uint32_t stream =
        ((uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8]) & UINT32_C(0x7fffffff);
    const size_t there = length < size - at - HEAD ? length : size - at - HEAD;
    const bool is_early =
        head[3] == RST_STREAM && length == 4 && stream % 2 == 1 && stream > newest && early < MOST_EARLY;
    if (head[3] == HEADERS && stream > newest) newest = stream;
    if (is_early) {
      early++;
    } else {
      memcpy(out + count, head, HEAD + there);
      count += HEAD + there;
    }
    at += HEAD + there;
  }
  return count;
}

/* The same by serve_pass_frames, `step` bytes at a time. */
static size_t read_cut(const uint8_t *bytes, size_t size, size_t before, size_t step, uint8_t *out) {
  serve_frames f = {.left = (uint32_t)before};
  size_t count = 0;
  for (size_t at = 0; at < size; at += step) {
    const size_t length = step < size - at ? step : size - at;
    uint8_t *piece = malloc(length); /* of its own, so that a byte beyond it is found */
    if (!piece) abort();
    memcpy(piece, bytes + at, length);
    base_str from = {(const char *)piece, length}, part;
    size_t left = from.length;
    while (serve_pass_frames(&f, &from, &part)) {
      assert(from.length < left && count + part.length <= size);
      left = from.length;
      if (part.length) memcpy(out + count, part.at, part.length);
      count += part.length;
    }
    assert(from.length == 0);
    free(piece);
  }
  return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 3) return 0;
  const size_t step = 1 + data[0] % 64, before = data[1];
  const uint8_t *bytes = data + 2;
  size -= 2;
  uint8_t *whole = malloc(size), *cut = malloc(size);
  if (!whole || !cut) abort();
  const size_t expected = read_whole(bytes, size, before, whole);
  assert(read_cut(bytes, size, before, step, cut) == expected && memcmp(whole, cut, expected) == 0);
  assert(read_cut(bytes, size, before, size, cut) == expected && memcmp(whole, cut, expected) == 0);
  free(whole);
  free(cut);
  return 0;
}
