/* mem.h -- memory. Every byte comes from a td_allocator, so that a caller can bring their own and a test can make the
 * n-th allocation fail. Arenas hold whatever is freed together. */
#ifndef BASE_MEM_H
#define BASE_MEM_H
#include "base/error.h"

/* The C library's allocator. */
extern const td_allocator base_libc_allocator;

void *base_alloc(const td_allocator *a, size_t bytes); /* 64-byte aligned, not cleared; NULL on failure or 0 bytes */
void base_free(const td_allocator *a, void *memory, size_t bytes);

/* A bump allocator over growing chunks. Not thread-safe. Memory is zeroed and 16-byte aligned. */
typedef struct base_arena base_arena;
base_arena *base_arena_new(const td_allocator *a); /* NULL when out of memory; copies *a */
/* Of an import or a compilation, that is freed at its end: beyond some KiB it takes 2 MiB at a time, which is faster.
 */
base_arena *base_arena_new_brief(const td_allocator *a);
void base_arena_free(base_arena *arena); /* NULL allowed */
void *base_arena_alloc(base_arena *arena, size_t bytes);
void *base_arena_alloc_aligned(base_arena *arena, size_t bytes, size_t align);
/* The same, not cleared: for what is filled at once, or by other threads, which then touch its pages first. */
void *base_arena_alloc_uncleared(base_arena *arena, size_t bytes, size_t align);
/* For weights of a model: lets chunks grow to many large pages. A tail smaller than a large page costs
 * small-page faults. */
void base_arena_expect_much(base_arena *arena);
const td_allocator *base_arena_allocator(const base_arena *arena);
size_t base_arena_bytes(const base_arena *arena);               /* taken from the allocator */
bool base_arena_holds(const base_arena *arena, const void *at); /* does it lie in memory of the arena? */
/* Has an allocation failed? For code that builds on many allocations whose callers cannot tell a failure from no
 * answer. */
bool base_arena_failed(const base_arena *arena);

/* `count` zeroed Ts, or NULL (also when the product overflows). */
#define base_new(arena, T, count) ((T *)base_arena_array((arena), (count), sizeof(T)))
void *base_arena_array(base_arena *arena, size_t count, size_t each);

char *base_arena_text(base_arena *arena, const char *text);                 /* a NUL-terminated copy */
char *base_arena_slice(base_arena *arena, const char *text, size_t length); /* the same of `length` bytes */
char *base_arena_format(base_arena *arena, const char *format, ...) BASE_PRINTF(2, 3);
void *base_arena_copy(base_arena *arena, const void *from, size_t bytes);

/* Growable arrays in an arena: struct { T *at; uint32_t count, cap; }. base_vec_push gives the address of a new zeroed
 * element, or NULL when out of memory, after which the vector may not be used. */
#define BASE_VEC(T)      \
  struct {               \
    T *at;               \
    uint32_t count, cap; \
  }
#define base_vec_push(arena, v)                                                                             \
  ((v)->count < (v)->cap || ((v)->at = base_vec_grow((arena), (v)->at, &(v)->cap, sizeof *(v)->at)) != NULL \
       ? &(v)->at[(v)->count++]                                                                             \
       : NULL)
void *base_vec_grow(base_arena *arena, const void *at, uint32_t *cap, size_t each);

/* An allocator that counts, and fails one allocation on request: the test's tool for "every allocation may fail".
 * Thread-safe where `inner` is. */
typedef struct base_counting {
  const td_allocator *inner;
  uint64_t made;                   /* allocations asked for so far (atomic) */
  uint64_t live;                   /* of these, not yet freed (atomic) */
  uint64_t live_bytes, peak_bytes; /* (atomic) */
  uint64_t fail_at;                /* the 1-based allocation to refuse, and all later ones; 0: none */
  bool each;                       /* what arenas are asked for counts as well, and can be refused */
} base_counting;
td_allocator base_counting_allocator(base_counting *counting);
#endif
