/* attr.c -- the attribute block of a node, made and read. */
#include "base/attr.h"

#include <string.h>

static size_t payload_bytes(const base_arg *a) {
  size_t bytes = a->kind == BASE_ATTR_INTS     ? a->count * sizeof(int64_t)
                 : a->kind == BASE_ATTR_FLOATS ? a->count * sizeof(double)
                 : a->kind == BASE_ATTR_STR    ? strlen(a->str) + 1
                                               : 0;
  return (bytes + 7) / 8 * 8;
}

static const void *payload(const base_arg *a) {
  return a->kind == BASE_ATTR_INTS     ? (const void *)a->ints
         : a->kind == BASE_ATTR_FLOATS ? (const void *)a->floats
                                       : a->str;
}

base_attrs *base_attrs_make(base_arena *arena, const base_arg *args, uint32_t count) {
  size_t head = sizeof(base_attrs) + count * sizeof(base_attr), total = head;
  for (uint32_t i = 0; i < count; i++) total += payload_bytes(&args[i]);
  if (total > UINT32_MAX) return NULL;
  base_attrs *block = base_arena_alloc(arena, total);
  if (!block) return NULL;
  *block = (base_attrs){.count = count, .bytes = (uint32_t)total};
  size_t offset = head;
  for (uint32_t i = 0; i < count; i++) {
    const base_arg *a = &args[i];
    base_attr *to = &block->at[i];
    to->kind = a->kind;
    size_t bytes = payload_bytes(a);
    if (a->kind == BASE_ATTR_FLOAT) to->u.f = a->f;
    else if (a->kind == BASE_ATTR_INTS || a->kind == BASE_ATTR_FLOATS || a->kind == BASE_ATTR_STR) {
      to->count = a->kind == BASE_ATTR_STR ? (uint32_t)strlen(a->str) : a->count;
      to->u.offset = offset;
      size_t used = a->kind == BASE_ATTR_STR ? to->count : a->count * sizeof(int64_t);
      if (used) memcpy((char *)block + offset, payload(a), used);
    } else to->u.i = a->i;
    offset += bytes;
  }
  return block;
}

static bool valid_payload(const base_attrs *block, const base_attr *a) {
  const bool text = a->kind == BASE_ATTR_STR;
  const uint64_t bytes = text ? (uint64_t)a->count + 1 : (uint64_t)a->count * sizeof(int64_t);
  if (a->u.offset % 8 || a->u.offset > block->bytes || bytes > block->bytes - a->u.offset) return false;
  const char *at = (const char *)block + a->u.offset;
  return !text || memchr(at, 0, a->count + (size_t)1) == at + a->count;
}

bool base_attrs_valid(const base_attrs *block, size_t room) {
  if (room < sizeof *block || block->bytes > room || block->bytes < sizeof *block ||
      block->count > (block->bytes - sizeof *block) / sizeof(base_attr))
    return false;
  for (uint32_t i = 0; i < block->count; i++) {
    const base_attr *a = &block->at[i];
    if (a->kind > BASE_ATTR_FLOATS || (a->kind >= BASE_ATTR_STR && !valid_payload(block, a))) return false;
  }
  return true;
}

int64_t base_attr_int(const base_attrs *a, uint32_t index) {
  BASE_ASSERT(index < a->count);
  const uint32_t kind = a->at[index].kind;
  const bool whole = kind == BASE_ATTR_INT || kind == BASE_ATTR_BOOL || kind == BASE_ATTR_DTYPE;
  BASE_ASSERT(whole || kind == BASE_ATTR_NONE);
  return whole ? a->at[index].u.i : 0;
}

double base_attr_float(const base_attrs *a, uint32_t index) {
  BASE_ASSERT(index < a->count && (a->at[index].kind == BASE_ATTR_FLOAT || a->at[index].kind == BASE_ATTR_NONE));
  return a->at[index].kind == BASE_ATTR_FLOAT ? a->at[index].u.f : 0;
}

static const void *list(const base_attrs *a, uint32_t index, uint32_t kind, uint32_t *count) {
  const base_attr *at = &a->at[index];
  BASE_ASSERT(index < a->count && (at->kind == kind || at->kind == BASE_ATTR_NONE));
  *count = at->kind == kind ? at->count : 0;
  return at->kind == kind ? (const char *)a + at->u.offset : NULL;
}

const char *base_attr_str(const base_attrs *a, uint32_t index) {
  uint32_t count;
  const char *text = list(a, index, BASE_ATTR_STR, &count);
  return text ? text : "";
}

const int64_t *base_attr_ints(const base_attrs *a, uint32_t index, uint32_t *count) {
  return list(a, index, BASE_ATTR_INTS, count);
}

int64_t base_attr_int_at(const base_attrs *a, uint32_t index, int32_t i, int64_t absent) {
  uint32_t count;
  const int64_t *ints = base_attr_ints(a, index, &count);
  return (uint32_t)i < count ? ints[i] : absent;
}

const double *base_attr_floats(const base_attrs *a, uint32_t index, uint32_t *count) {
  return list(a, index, BASE_ATTR_FLOATS, count);
}
