/* reserve.c -- address space that becomes memory only where it is touched, and large pages. */
#include "sys/sys.h"

#include <sys/mman.h>
#include <unistd.h>

void *sys_reserve(size_t *bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t least = *bytes < SYS_RESERVE_LEAST ? *bytes : SYS_RESERVE_LEAST;
  for (size_t size = *bytes; size >= least && size > 0; size /= 2) {
    size_t whole;
    if (!base_add(size, page - 1, &whole)) continue;
    whole -= whole % page;
    void *memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) continue;
    *bytes = whole;
    return memory;
  }
  return NULL;
}

void sys_release(void *memory, size_t bytes) {
  if (memory) munmap(memory, bytes);
}

void sys_give_back(void *memory, size_t bytes) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t start = (uintptr_t)memory, end = start + bytes;
  uintptr_t first = (start + page - 1) / page * page, last = end / page * page;
  if (first < last) madvise((char *)memory + (first - start), last - first, MADV_DONTNEED);
}

void sys_want_huge_pages(void *memory, size_t bytes) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), offset = (page - (uintptr_t)memory % page) % page;
  if (offset < bytes) madvise((char *)memory + offset, bytes - offset, MADV_HUGEPAGE);
}

/* ---- the allocator ---- */

enum { LARGE_PAGE = 1 << 21 };

static void *large_alloc(void *user, size_t bytes, size_t align) {
  bool large = bytes >= LARGE_PAGE;
  void *memory = base_libc_allocator.alloc(user, bytes, large && align < LARGE_PAGE ? LARGE_PAGE : align);
  if (memory && large) sys_want_huge_pages(memory, bytes);
  return memory;
}

static void large_free(void *user, void *memory, size_t bytes) { base_libc_allocator.free(user, memory, bytes); }

const td_allocator sys_allocator = {NULL, large_alloc, large_free};
