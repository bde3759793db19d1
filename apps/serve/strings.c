/* strings.c -- the datatype BYTES: texts for models that take such, and pictures, which are decoded, for models that
 * take those. On the wire an element of binary data is its length (u32) and its bytes. */
#include <string.h>

#include "fmt/image.h"
#include "server.h"

static td_status bad(td_error *err, const char *name, const char *text) {
  return base_fail(err, TD_BAD_ARGUMENT, name, -1, "%s", text);
}

td_status serve_split_strings(base_arena *arena, const char *name, base_str raw, int64_t count, td_string **items,
                              td_error *err) {
  if (count < 0 || (uint64_t)count > raw.length / 4) return bad(err, name, "has not the elements that its shape says");
  td_string *all = base_new(arena, td_string, (size_t)count + 1);
  if (!all) return base_no_memory(err, "texts");
  for (int64_t i = 0; i < count; i++) {
    uint32_t length;
    if (raw.length < 4) return bad(err, name, "has not the elements that its shape says");
    memcpy(&length, raw.at, 4);
    if (length > raw.length - 4) return bad(err, name, "has an element that is longer than the data");
    all[i] = (td_string){raw.at + 4, length};
    raw = (base_str){raw.at + 4 + length, raw.length - 4 - length};
  }
  *items = all;
  return raw.length ? bad(err, name, "has bytes behind its last element") : TD_OK;
}

static int32_t digit_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* What JSON holds of a picture; at == NULL: it is no base64, or out of memory. */
static base_str decode64(base_arena *arena, base_str text) {
  const base_str none = {NULL, 0};
  if (text.length % 4 != 0) return none;
  while (text.length && text.at[text.length - 1] == '=') text.length--;
  char *to = base_arena_alloc_uncleared(arena, text.length + 1, 1);
  size_t count = 0;
  uint32_t bits = 0;
  for (size_t i = 0; to && i < text.length; i++) {
    const int32_t digit = digit_of(text.at[i]);
    if (digit < 0) return none;
    bits = bits << 6 | (uint32_t)digit;
    if (i % 4) to[count++] = (char)(bits >> (6 - 2 * (i % 4)));
  }
  return (base_str){to, to ? count : 0};
}

/* All pictures as one tensor: they have one size, and the model's first one is theirs. */
static td_status join_pictures(serve_job *job, size_t index, const char *name, const td_tensor *strings, int64_t count,
                               const char *preset, td_error *err) {
  const td_string *items = strings->data;
  td_tensor *all = &job->inputs[index];
  size_t each = 0;
  if (count < 1 || count > SERVE_MOST_BATCH) return bad(err, name, "has no pictures, or more than 64");
  for (int64_t i = 0; i < count; i++) {
    td_tensor one;
    int64_t numbers;
    base_str file = {items[i].at, items[i].length};
    if (!fmt_image_sniff(file.at, file.length)) file = decode64(job->arena, file);
    TRY(serve_read_picture(job, index, file, preset, &one, err));
    if (count == 1) {
      *all = one;
      return TD_OK;
    }
    if (!i) {
      *all = one;
      if (one.rank != 4 || !base_numel(one.rank, one.dims, &numbers) || !base_dtype_bytes(one.dtype, numbers, &each))
        return bad(err, name, "takes one picture");
      all->dims[0] = count;
      all->data = base_arena_array(job->arena, (size_t)count, each);
      if (!all->data) return base_no_memory(err, "pictures");
    } else if (memcmp(&one.dims[1], &all->dims[1], 3 * sizeof *one.dims) != 0) {
      return bad(err, name, "has pictures of different sizes");
    }
    memcpy((char *)all->data + (size_t)i * each, one.data, each);
  }
  return TD_OK;
}

td_status serve_give_strings(serve_job *job, size_t index, const td_tensor *strings, const char *preset,
                             td_error *err) {
  td_value_info info = {.size = sizeof info};
  int64_t count;
  const serve_handler *handler = job->version->handler;
  TRY(td_model_input(job->version->model, index, &info, err));
  if (info.dtype == TD_STRING) {
    job->inputs[index] = *strings;
    return TD_OK;
  }
  if (!base_numel(strings->rank, strings->dims, &count)) return bad(err, info.name, "has a shape too large");
  return join_pictures(job, index, info.name, strings, count,
                       preset    ? preset
                       : handler ? handler->preset
                                 : "imagenet",
                       err);
}

size_t serve_strings_size(const td_tensor *t, int64_t count) {
  const td_string *items = t->data;
  size_t bytes = 4 * (size_t)count;
  for (int64_t i = 0; i < count; i++) bytes += (uint32_t)items[i].length;
  return bytes;
}

void serve_put_strings(base_text *to, const td_tensor *t, int64_t count) {
  const td_string *items = t->data;
  for (int64_t i = 0; i < count; i++) {
    const uint32_t length = (uint32_t)items[i].length;
    base_text_add(to, (const char *)&length, 4);
    base_text_add(to, items[i].at, length);
  }
}
