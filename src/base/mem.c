/* mem.c -- the allocator, arenas (chunks that double and are freed together), vectors, and the
 * allocator that counts and refuses for tests. */
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALLOC_ALIGN = 64, ARENA_ALIGN = 16, CHUNK_MIN = 4096, CHUNK_MAX = 1 << 22, CHUNK_LARGE = 1 << 25 };
/* Chunks between these cost a page fault for every 4 KiB; one of the larger size is a large page (sys_allocator), which
 * arenas of imports, compilations and weights take instead. */
enum { CHUNK_SMALL = 1 << 16, CHUNK_PAGE = 1 << 21 };

static void *libc_alloc(void *user, size_t bytes, size_t align) {
  (void)user;
  if (bytes > SIZE_MAX - align) return NULL;
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void libc_free(void *user, void *memory, size_t bytes) {
  (void)user;
  (void)bytes;
  free(memory);
}

const td_allocator base_libc_allocator = {NULL, libc_alloc, libc_free};

void *base_alloc(const td_allocator *a, size_t bytes) { return bytes ? a->alloc(a->user, bytes, ALLOC_ALIGN) : NULL; }

void base_free(const td_allocator *a, void *memory, size_t bytes) {
  if (memory) a->free(a->user, memory, bytes);
}

/* Chunks form a list; only the first one has room. */
typedef struct chunk {
  struct chunk *older;
  size_t bytes; /* of the allocation, header included */
  size_t used;  /* header included */
} chunk;

struct base_arena {
  td_allocator allocator;
  chunk *newest;
  size_t bytes, largest; /* largest: what chunks double up to */
  bool failed;
  bool pages; /* chunks that are not small are large pages */
};

base_arena *base_arena_new(const td_allocator *a) {
  base_arena *arena = base_alloc(a, sizeof *arena);
  if (arena) *arena = (base_arena){.allocator = *a, .bytes = sizeof *arena, .largest = CHUNK_MAX};
  return arena;
}

base_arena *base_arena_new_brief(const td_allocator *a) {
  base_arena *arena = base_arena_new(a);
  if (arena) arena->pages = true;
  return arena;
}

void base_arena_free(base_arena *arena) {
  if (!arena) return;
  for (chunk *c = arena->newest; c;) {
    chunk *older = c->older;
    base_free(&arena->allocator, c, c->bytes);
    c = older;
  }
  td_allocator allocator = arena->allocator;
  base_free(&allocator, arena, sizeof *arena);
}

void base_arena_expect_much(base_arena *arena) {
  arena->largest = CHUNK_LARGE;
  arena->pages = true;
}

static void *counting_alloc(void *user, size_t bytes, size_t align);
static bool refused(const td_allocator *a);

/* What is larger than any chunk has one of its own, and the newest one's room stays in use. */
static chunk *arena_grow(base_arena *arena, size_t bytes) {
  chunk *newest = arena->newest;
  size_t size = newest ? newest->bytes * 2 : CHUNK_MIN;
  if (arena->pages && size > CHUNK_SMALL && size < CHUNK_PAGE) size = CHUNK_PAGE;
  if (size > arena->largest) size = arena->largest;
  const bool own = newest && bytes > arena->largest;
  if (size < bytes) size = bytes;
  chunk *c = base_alloc(&arena->allocator, size);
  if (!c) return NULL;
  *c = (chunk){.older = own ? newest->older : newest, .bytes = size, .used = sizeof *c};
  arena->bytes += size;
  if (own) newest->older = c;
  else arena->newest = c;
  return c;
}

/* Bytes into the chunk of the first free address that `align` (a power of two) divides. */
static size_t aligned_start(const chunk *c, size_t align) {
  uintptr_t free_at = (uintptr_t)c + c->used;
  return c->used + (size_t)(-free_at & (align - 1));
}

void *base_arena_alloc_uncleared(base_arena *arena, size_t bytes, size_t align) {
  BASE_ASSERT(align && (align & (align - 1)) == 0);
  if (bytes > SIZE_MAX / 2 || refused(&arena->allocator)) {
    arena->failed = true;
    return NULL;
  }
  chunk *c = arena->newest;
  size_t start = c ? aligned_start(c, align) : 0;
  if (!c || start > c->bytes || c->bytes - start < bytes) {
    c = arena_grow(arena, sizeof *c + align + bytes);
    arena->failed |= !c;
    if (!c) return NULL;
    start = aligned_start(c, align);
  }
  c->used = start + bytes;
  return (char *)c + start;
}

void *base_arena_alloc_aligned(base_arena *arena, size_t bytes, size_t align) {
  void *memory = base_arena_alloc_uncleared(arena, bytes, align);
  return memory ? memset(memory, 0, bytes) : NULL;
}

void *base_arena_alloc(base_arena *arena, size_t bytes) { return base_arena_alloc_aligned(arena, bytes, ARENA_ALIGN); }

const td_allocator *base_arena_allocator(const base_arena *arena) { return &arena->allocator; }

size_t base_arena_bytes(const base_arena *arena) { return arena->bytes; }

bool base_arena_holds(const base_arena *arena, const void *at) {
  for (const chunk *c = arena->newest; c; c = c->older)
    if ((uintptr_t)at - (uintptr_t)c < c->bytes) return true;
  return false;
}

bool base_arena_failed(const base_arena *arena) { return arena->failed; }

void *base_arena_array(base_arena *arena, size_t count, size_t each) {
  size_t bytes;
  if (__builtin_mul_overflow(count, each, &bytes)) return NULL;
  return base_arena_alloc(arena, bytes);
}

void *base_arena_copy(base_arena *arena, const void *from, size_t bytes) {
  void *to = base_arena_alloc(arena, bytes);
  if (to && bytes) memcpy(to, from, bytes);
  return to;
}

char *base_arena_slice(base_arena *arena, const char *text, size_t length) {
  if (length == SIZE_MAX) return NULL;
  char *copy = base_arena_alloc_uncleared(arena, length + 1, 1);
  if (!copy) return NULL;
  if (length) memcpy(copy, text, length);
  copy[length] = 0;
  return copy;
}

char *base_arena_text(base_arena *arena, const char *text) { return base_arena_slice(arena, text, strlen(text)); }

char *base_arena_format(base_arena *arena, const char *format, ...) {
  va_list args, again;
  char most[256]; /* most texts are shorter, and printed once */
  va_start(args, format);
  va_copy(again, args);
  int length = vsnprintf(most, sizeof most, format, args);
  char *text = length < 0 ? NULL : base_arena_alloc_uncleared(arena, (size_t)length + 1, 1);
  if (text && (size_t)length < sizeof most) memcpy(text, most, (size_t)length + 1);
  else if (text) vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  va_end(args);
  return text;
}

void *base_vec_grow(base_arena *arena, const void *at, uint32_t *cap, size_t each) {
  if (*cap > UINT32_MAX / 2) return NULL;
  enum { FIRST_BYTES = 512 }; /* there are many vectors of a few large things */
  uint32_t larger = *cap ? *cap * 2 : each > FIRST_BYTES / 8 ? 4 : 8;
  void *to = base_arena_array(arena, larger, each);
  if (!to) return NULL;
  if (at) memcpy(to, at, *cap * each);
  *cap = larger;
  return to;
}

static bool is_refused(base_counting *c) {
  uint64_t number = __atomic_add_fetch(&c->made, 1, __ATOMIC_RELAXED);
  return c->fail_at && number >= c->fail_at;
}

/* An arena that a test watches asks before it gives. */
static bool refused(const td_allocator *a) {
  return a->alloc == counting_alloc && ((base_counting *)a->user)->each && is_refused(a->user);
}

static void *counting_alloc(void *user, size_t bytes, size_t align) {
  base_counting *c = user;
  if (is_refused(c)) return NULL;
  void *memory = c->inner->alloc(c->inner->user, bytes, align);
  if (!memory) return NULL;
  __atomic_add_fetch(&c->live, 1, __ATOMIC_RELAXED);
  uint64_t now = __atomic_add_fetch(&c->live_bytes, bytes, __ATOMIC_RELAXED);
  uint64_t peak = __atomic_load_n(&c->peak_bytes, __ATOMIC_RELAXED);
  while (now > peak &&
         !__atomic_compare_exchange_n(&c->peak_bytes, &peak, now, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    continue;
  return memory;
}

static void counting_free(void *user, void *memory, size_t bytes) {
  base_counting *c = user;
  __atomic_sub_fetch(&c->live, 1, __ATOMIC_RELAXED);
  __atomic_sub_fetch(&c->live_bytes, bytes, __ATOMIC_RELAXED);
  c->inner->free(c->inner->user, memory, bytes);
}

td_allocator base_counting_allocator(base_counting *counting) {
  return (td_allocator){counting, counting_alloc, counting_free};
}
