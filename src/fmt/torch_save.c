/* torch.save: a pickle of dictionaries and tensors, and the storages it refers to. In the zip form each storage is an
 * entry <folder>/data/<key>. The older form is a chain: magic number, protocol version, a dictionary of sizes, the
 * pickle, the list of storage keys (one small pickle each), then for each key in that order an 8-byte count and the
 * elements. */
#include <stdio.h>

#include "fmt/bytes_priv.h"
#include "fmt/pickle.h"
#include "fmt/torch_storage.h"
#include "fmt/state_dict_priv.h"

enum { MAX_NESTING = 16, PICKLE_SLACK = 1 << 18 };

typedef struct source {
  fmt_state_dict *dict;
  const uint8_t *file;
  size_t size;
  fmt_zip zip;
  base_str folder;       /* with its slash */
  fmt_storages storages; /* those the pickle mentions */
  fmt_storage_set set;
  td_error *err;
} source;

static td_status bad_file(source *s, const char *what) { return base_fail(s->err, TD_BAD_FILE, NULL, -1, "%s", what); }

/* ---- names ------------------------------------------------------------------------------------------------------- */

static td_status flatten(source *s, fmt_object *object, base_str prefix, int depth);

/* prefix.key, or key itself when there is no prefix. */
static td_status join(source *s, base_str prefix, base_str key, base_str *out) {
  *out = key;
  if (prefix.length == 0) return TD_OK;
  if (prefix.length + key.length > FMT_MAX_ENTRY_NAME) return bad_file(s, "the name of a nested tensor is too long");
  char *text = base_arena_format(s->dict->arena, "%.*s.%.*s", (int)prefix.length, prefix.at, (int)key.length, key.at);
  if (!text) return base_no_memory(s->err, "weights");
  *out = base_str_of(text);
  return TD_OK;
}

static td_status flatten_entry(source *s, base_str prefix, base_str key, fmt_object *value, int depth) {
  base_str name = {"", 0};
  base_tensor tensor;
  if (value->kind != FMT_OBJ_TENSOR && value->kind != FMT_OBJ_DICT) return TD_OK;
  TRY(join(s, prefix, key, &name));
  if (value->kind == FMT_OBJ_DICT) return flatten(s, value, name, depth + 1);
  td_status status = value->u.tensor->quantiser
                         ? base_fail(s->err, TD_UNSUPPORTED, NULL, -1, "a quantised tensor is no weight of a model")
                         : fmt_storage_view(&s->set, value->u.tensor, &tensor);
  if (status != TD_OK)
    return base_error_name(s->err, status, "tensor %.*s", (int)(name.length < 200 ? name.length : 200), name.at);
  return fmt_dict_add(s->dict, name, &tensor, s->err);
}

static td_status flatten(source *s, fmt_object *object, base_str prefix, int depth) {
  if (object->seen || depth > MAX_NESTING)
    return base_fail(s->err, TD_UNSUPPORTED, NULL, -1, "the file holds a dictionary twice, or nested more than %d deep",
                     (int)MAX_NESTING);
  object->seen = true;
  const fmt_objects *items = &object->u.items;
  for (uint32_t i = 0; i + 1 < items->count; i += 2)
    if (items->at[i]->kind == FMT_OBJ_STR) TRY(flatten_entry(s, prefix, items->at[i]->u.str, items->at[i + 1], depth));
  return TD_OK;
}

static td_status add_tensors(source *s, fmt_object *root) {
  if (root->kind == FMT_OBJ_DICT) TRY(flatten(s, root, (base_str){"", 0}, 0));
  if (s->dict->entries.count == 0)
    return bad_file(s, "the file holds no dictionary of tensors; save model.state_dict()");
  return TD_OK;
}

/* ---- the zip form ------------------------------------------------------------------------------------------------ */

static const fmt_zip_entry *member(const source *s, const char *name) {
  return fmt_zip_member(&s->zip, s->folder, base_str_of(name));
}

static td_status check_byte_order(source *s) {
  const fmt_zip_entry *e = member(s, "byteorder");
  const uint8_t *data = NULL;
  if (!e) return TD_OK;
  TRY(fmt_zip_read(s->dict->arena, &s->zip, e, &data, s->err));
  if (e->bytes >= 3 && memcmp(data, "big", 3) == 0)
    return base_fail(s->err, TD_UNSUPPORTED, NULL, -1, "the file was saved on a big-endian machine");
  return TD_OK;
}

static td_status fill_from_zip(source *s) {
  const uint8_t *pickle = NULL;
  fmt_object *root = NULL;
  size_t at = 0;
  TRY(fmt_zip_open(s->dict->arena, s->file, s->size, &s->zip, s->err));
  s->folder = fmt_zip_folder(&s->zip);
  char *data = base_arena_format(s->dict->arena, "%.*sdata/", (int)s->folder.length, s->folder.at);
  if (!data) return base_no_memory(s->err, "weights");
  s->set.zip = &s->zip;
  s->set.folder = base_str_of(data);
  if (member(s, "constants.pkl"))
    return base_fail(s->err, TD_UNSUPPORTED, NULL, -1, "the file is a TorchScript model, not a dictionary of weights");
  const fmt_zip_entry *e = member(s, "data.pkl");
  if (!e) return bad_file(s, "the archive has no data.pkl, so torch.save did not write it");
  if (e->bytes / 4 > s->size + PICKLE_SLACK) return bad_file(s, "data.pkl is packed too tightly to be genuine");
  TRY(check_byte_order(s));
  TRY(fmt_zip_read(s->dict->arena, &s->zip, e, &pickle, s->err));
  td_status status = fmt_pickle_read(s->dict->arena, pickle, e->bytes, &at, &root, s->err);
  if (status != TD_OK) {
    if (s->err && s->err->offset >= 0 && e->method == 0) s->err->offset += pickle - s->file;
    return base_error_name(s->err, status, "data.pkl");
  }
  return add_tensors(s, root);
}

/* ---- the older form ---------------------------------------------------------------------------------------------- */

/* 0x1950a86a20f9469cfc6c, as pickle writes it. */
static const uint8_t old_magic[10] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

static td_status read_preamble(source *s, size_t *at) {
  fmt_object *magic = NULL, *version = NULL, *system = NULL;
  TRY(fmt_pickle_read(s->dict->arena, s->file, s->size, at, &magic, s->err));
  if (magic->kind != FMT_OBJ_LONG || magic->u.str.length != sizeof old_magic ||
      memcmp(magic->u.str.at, old_magic, sizeof old_magic) != 0)
    return bad_file(s, "the file is a pickle, but torch.save did not write it");
  TRY(fmt_pickle_read(s->dict->arena, s->file, s->size, at, &version, s->err));
  if (version->kind != FMT_OBJ_INT || version->u.i != 1001)
    return base_fail(s->err, TD_UNSUPPORTED, NULL, -1, "the file has another torch.save protocol version than 1001");
  TRY(fmt_pickle_read(s->dict->arena, s->file, s->size, at, &system, s->err));
  const fmt_objects *items = &system->u.items;
  for (uint32_t i = 0; system->kind == FMT_OBJ_DICT && i + 1 < items->count; i += 2)
    if (items->at[i]->kind == FMT_OBJ_STR && base_str_is(items->at[i]->u.str, "little_endian") &&
        items->at[i + 1]->kind == FMT_OBJ_BOOL && !items->at[i + 1]->u.i)
      return base_fail(s->err, TD_UNSUPPORTED, NULL, -1, "the file was saved on a big-endian machine");
  return TD_OK;
}

/* One storage at *at: its count and its elements, whose size the pickle told. */
static td_status read_storage(source *s, const fmt_storage *storage, size_t *at) {
  size_t bytes, unit = storage->dtype == TD_INVALID ? 1 : base_dtype(storage->dtype)->bits / 8u;
  if (!base_in_range(*at, 8, s->size)) return bad_file(s, "the file ends before its last storage; is it complete?");
  uint64_t count = fmt_le64(s->file + *at);
  if (count != (uint64_t)storage->count) return bad_file(s, "a storage has another size than the pickle says");
  if (!base_mul(count, unit, &bytes) || !base_in_range(*at + 8, bytes, s->size))
    return bad_file(s, "the file ends inside a storage; is it complete?");
  TRY(fmt_add_record(&s->set, storage->key, s->file + *at + 8, bytes));
  *at += 8 + bytes;
  return TD_OK;
}

static td_status read_records(source *s, const fmt_object *keys, size_t *at) {
  base_map known = {0};
  if (keys->kind != FMT_OBJ_LIST) return bad_file(s, "the file has no list of storages");
  for (uint32_t i = 0; i < s->storages.count; i++)
    if (!base_map_get(&known, s->storages.at[i]->key) &&
        !base_map_put(&known, s->dict->arena, s->storages.at[i]->key, i, NULL))
      return base_no_memory(s->err, "storages");
  for (uint32_t i = 0; i < keys->u.items.count; i++) {
    const fmt_object *key = keys->u.items.at[i];
    const uint32_t *index = key->kind == FMT_OBJ_STR ? base_map_get(&known, key->u.str) : NULL;
    if (!index) return bad_file(s, "the list of storages names one that no tensor uses");
    TRY(read_storage(s, s->storages.at[*index], at));
  }
  return TD_OK;
}

static td_status fill_from_chain(source *s) {
  fmt_object *root = NULL, *keys = NULL;
  size_t at = 0;
  TRY(read_preamble(s, &at));
  TRY(fmt_pickle_read_storages(s->dict->arena, s->file, s->size, &at, &s->storages, &root, s->err));
  TRY(fmt_pickle_read(s->dict->arena, s->file, s->size, &at, &keys, s->err));
  TRY(read_records(s, keys, &at));
  return add_tensors(s, root);
}

static td_status fill(fmt_state_dict *dict, const uint8_t *file, size_t size, td_dtype raw_as, td_error *err) {
  (void)raw_as;
  source s = {.dict = dict, .file = file, .size = size, .folder = {"", 0}, .err = err};
  s.set = (fmt_storage_set){.arena = dict->arena, .file = file, .size = size, .err = err};
  return fmt_zip_sniff(file, size) ? fill_from_zip(&s) : fill_from_chain(&s);
}

td_status fmt_state_dict_open(const td_allocator *allocator, const void *bytes, size_t size, fmt_state_dict **out,
                              td_error *err) {
  return fmt_dict_open(allocator, bytes, size, fill, TD_INVALID, out, err);
}
