/* torch_storage.c -- finds a storage's bytes, and checks that a tensor stays inside them. */
#include "fmt/torch_storage.h"

#include <string.h>

#include "fmt/bytes_priv.h"

enum { MAX_SHARING = 64 };

static td_status bad_file(fmt_storage_set *s, const char *what) {
  return base_fail(s->err, TD_BAD_FILE, NULL, -1, "%s", what);
}

const fmt_zip_entry *fmt_zip_member(const fmt_zip *zip, base_str folder, base_str name) {
  char full[2 * FMT_MAX_ENTRY_NAME + 1];
  if (folder.length > FMT_MAX_ENTRY_NAME || name.length > FMT_MAX_ENTRY_NAME) return NULL;
  if (folder.length) memcpy(full, folder.at, folder.length);
  if (name.length) memcpy(full + folder.length, name.at, name.length);
  return fmt_zip_find(zip, (base_str){full, folder.length + name.length});
}

base_str fmt_zip_folder(const fmt_zip *zip) {
  base_str first = zip->count ? zip->entries[0].name : (base_str){"", 0};
  const char *slash = first.length ? memchr(first.at, '/', first.length) : NULL;
  if (!slash || slash - first.at >= FMT_MAX_ENTRY_NAME) return (base_str){"", 0};
  return (base_str){first.at, (size_t)(slash + 1 - first.at)};
}

td_status fmt_add_record(fmt_storage_set *s, base_str key, const uint8_t *data, size_t bytes) {
  fmt_record *r = base_vec_push(s->arena, &s->records);
  if (!r || !base_map_put(&s->by_key, s->arena, key, s->records.count - 1, NULL))
    return base_no_memory(s->err, "storages");
  *r = (fmt_record){data, bytes};
  return TD_OK;
}

static td_status load_entry(fmt_storage_set *s, base_str key) {
  const uint8_t *data = NULL;
  const fmt_zip_entry *e = fmt_zip_member(s->zip, s->folder, key);
  if (!e)
    return base_fail(s->err, TD_BAD_FILE, NULL, -1, "the archive has no entry %.*s%.*s",
                     (int)(s->folder.length < 100 ? s->folder.length : 100), s->folder.at,
                     (int)(key.length < 100 ? key.length : 100), key.at);
  TRY(fmt_zip_read(s->arena, s->zip, e, &data, s->err));
  return fmt_add_record(s, key, data, e->bytes);
}

/* Entries are looked up when the first tensor asks for them. */
static td_status find_record(fmt_storage_set *s, const fmt_storage *storage, fmt_record *out) {
  const uint32_t *index = base_map_get(&s->by_key, storage->key);
  if (!index && s->zip) {
    TRY(load_entry(s, storage->key));
    index = base_map_get(&s->by_key, storage->key);
  }
  if (!index) return bad_file(s, "a tensor's storage is not in the file");
  *out = s->records.at[*index];
  return TD_OK;
}

/* Elements from the first to the last that dims and strides reach, both included; false on overflow. */
static bool extent(const fmt_stored_tensor *t, int64_t *elements) {
  int64_t last = 0, step;
  for (int32_t i = 0; i < t->rank; i++)
    if (!base_mul_i64(t->dims[i] - 1, t->strides[i], &step) || !base_add_i64(last, step, &last)) return false;
  return base_add_i64(last, 1, elements);
}

static td_status check_inside(fmt_storage_set *s, const fmt_stored_tensor *t, const fmt_record *r, int64_t reach) {
  size_t each = base_dtype(t->dtype)->bits / 8u, end, bytes;
  size_t unit = t->storage->dtype == TD_INVALID ? 1 : base_dtype(t->storage->dtype)->bits / 8u;
  if (!base_mul((size_t)t->storage->count, unit, &bytes) || bytes > r->bytes)
    return bad_file(s, "a storage claims more elements than the file holds for it");
  if (!base_add((size_t)t->offset, (size_t)reach, &end) || end > bytes / each)
    return bad_file(s, "the tensor reaches beyond its storage");
  return TD_OK;
}

/* A copy where bytes are neither 0 nor 1; `reach` of them. */
static td_status clean_bools(fmt_storage_set *s, base_tensor *t, size_t reach) {
  if (!base_add(s->bools_looked, reach, &s->bools_looked) || s->bools_looked / MAX_SHARING > s->size)
    return bad_file(s, "more bool tensors share a storage than a genuine file has");
  t->data = fmt_bools(s->arena, t->data, reach);
  return t->data ? TD_OK : base_no_memory(s->err, "weights");
}

td_status fmt_storage_view(fmt_storage_set *s, const fmt_stored_tensor *t, base_tensor *out) {
  int64_t numel, reach;
  size_t bytes;
  fmt_record r = {s->file, 0};
  *out = (base_tensor){.data = fmt_view(s->file), .dtype = t->dtype, .rank = t->rank};
  memcpy(out->dims, t->dims, sizeof out->dims);
  memcpy(out->strides, t->strides, sizeof out->strides);
  if (!fmt_tensor_size(t->dtype, t->rank, t->dims, &numel, &bytes) || bytes > s->size)
    return bad_file(s, "the tensor is larger than its file");
  if (numel == 0) return TD_OK;
  if (!extent(t, &reach)) return bad_file(s, "the tensor's strides overflow");
  TRY(find_record(s, t->storage, &r));
  TRY(check_inside(s, t, &r, reach));
  out->data = fmt_view(r.data + (size_t)t->offset * (base_dtype(t->dtype)->bits / 8u));
  return t->dtype == TD_BOOL ? clean_bools(s, out, (size_t)reach) : TD_OK;
}
