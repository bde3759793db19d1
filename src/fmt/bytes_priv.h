/* bytes_priv.h -- what several readers of this room share: little-endian numbers at any address, checked tensor sizes.
 */
#ifndef FMT_BYTES_PRIV_H
#define FMT_BYTES_PRIV_H
#include <string.h>

#include "base/base.h"

/* base_tensor has one data pointer for what is read and what is written; views into a file are never written to. */
static inline void *fmt_view(const void *bytes) { return (void *)(uintptr_t)bytes; }

static inline uint16_t fmt_le16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t fmt_le32(const uint8_t *p) { return fmt_le16(p) | (uint32_t)fmt_le16(p + 2) << 16; }
static inline uint64_t fmt_le64(const uint8_t *p) { return fmt_le32(p) | (uint64_t)fmt_le32(p + 4) << 32; }

/* Elements and bytes of a tensor with these dims. Unlike base_numel it counts a dim of 0 as 1 while it looks for
 * overflow, so that strides are safe as well. False: a negative dim, or more than 2^62 bytes. */
bool fmt_tensor_size(td_dtype dtype, int32_t rank, const int64_t *dims, int64_t *elements, size_t *bytes);

/* bool elements must be 0 or 1: gives `data` itself when they are, else a corrected copy. NULL: out of memory. */
void *fmt_bools(base_arena *arena, const void *data, size_t count);
#endif
