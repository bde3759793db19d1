/* state_dict.c -- dictionaries of tensors: look-up, npz, and which reader a file of weights needs. */
#include "fmt/state_dict_priv.h"

#include "fmt/bytes_priv.h"
#include "fmt/npy.h"

td_status fmt_dict_open(const td_allocator *allocator, const void *bytes, size_t size, fmt_fill_fn fill,
                        td_dtype raw_as, fmt_state_dict **out, td_error *err) {
  base_arena *arena = base_arena_new(allocator);
  fmt_state_dict *dict = arena ? base_new(arena, fmt_state_dict, 1) : NULL;
  td_status status = dict ? TD_OK : base_no_memory(err, "weights");
  if (status == TD_OK) {
    dict->arena = arena;
    status = fill(dict, bytes, size, raw_as, err);
  }
  if (status != TD_OK) {
    base_arena_free(arena);
    return status;
  }
  *out = dict;
  return TD_OK;
}

void fmt_state_dict_free(fmt_state_dict *dict) {
  if (dict) base_arena_free(dict->arena);
}

const fmt_named *fmt_state_dict_find(const fmt_state_dict *dict, base_str name) {
  const uint32_t *index = base_map_get(&dict->by_name, name);
  return index ? &dict->entries.at[*index] : NULL;
}

td_status fmt_dict_add(fmt_state_dict *dict, base_str name, const base_tensor *tensor, td_error *err) {
  bool existed = false;
  uint32_t index = dict->entries.count;
  fmt_named *entry = base_vec_push(dict->arena, &dict->entries);
  if (!entry || !base_map_put(&dict->by_name, dict->arena, name, index, &existed))
    return base_no_memory(err, "weights");
  *entry = (fmt_named){name, *tensor};
  if (!existed) return TD_OK;
  return base_fail(err, TD_BAD_FILE, NULL, -1, "two tensors of the file are called %.*s",
                   (int)(name.length < 200 ? name.length : 200), name.at);
}

/* ---- npz --------------------------------------------------------------------------------------------------------- */

static td_status fill_from_npz(fmt_state_dict *dict, const uint8_t *file, size_t size, td_dtype raw_as, td_error *err) {
  fmt_zip zip;
  TRY(fmt_zip_open(dict->arena, file, size, &zip, err));
  for (uint32_t i = 0; i < zip.count; i++) {
    const fmt_zip_entry *e = &zip.entries[i];
    const uint8_t *data = NULL;
    base_tensor tensor;
    if (!base_str_ends(e->name, ".npy")) continue;
    base_str name = {e->name.at, e->name.length - 4};
    td_status status = fmt_zip_read(dict->arena, &zip, e, &data, err);
    if (status == TD_OK) status = fmt_npy_read(dict->arena, data, e->bytes, raw_as, &tensor, err);
    if (status != TD_OK && err) err->offset = (int64_t)e->local; /* of the file, not inside an inflated entry */
    if (status != TD_OK)
      return base_error_name(err, status, "array %.*s", (int)(name.length < 200 ? name.length : 200), name.at);
    TRY(fmt_dict_add(dict, name, &tensor, err));
  }
  return TD_OK;
}

td_status fmt_npz_open(const td_allocator *allocator, const void *bytes, size_t size, td_dtype raw_as,
                       fmt_state_dict **out, td_error *err) {
  return fmt_dict_open(allocator, bytes, size, fill_from_npz, raw_as, out, err);
}

/* ---- any of them ------------------------------------------------------------------------------------------------- */

/* True for a zip whose first entry is an array. */
static bool is_npz(const uint8_t *file, size_t size) {
  if (!fmt_zip_sniff(file, size)) return false;
  size_t name = fmt_le16(file + 26);
  return base_in_range(30, name, size) && base_str_ends((base_str){(const char *)file + 30, name}, ".npy");
}

td_status fmt_weights_open(const td_allocator *allocator, const void *bytes, size_t size, fmt_state_dict **out,
                           td_error *err) {
  const uint8_t *file = bytes;
  if (is_npz(file, size)) return fmt_npz_open(allocator, bytes, size, TD_INVALID, out, err);
  if (fmt_zip_sniff(file, size) || (size >= 2 && file[0] == 0x80 && file[1] == 2))
    return fmt_state_dict_open(allocator, bytes, size, out, err);
  if (size > 8 && file[8] == '{') return fmt_safetensors_open(allocator, bytes, size, out, err);
  return base_fail(err, TD_BAD_FILE, NULL, 0, "this is no weights file: neither torch.save nor safetensors nor npz");
}
