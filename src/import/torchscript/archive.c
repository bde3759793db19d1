/* archive.c -- what a TorchScript archive holds: version, pickles, storages, and source files that are parsed when
 * somebody asks for a name in them. */
#include <string.h>

#include "import/torchscript/ts_priv.h"

/* Pickles and sources may be deflated; this is more than honest ones shrink to. */
enum { MAX_UNPACK = 64, SLACK = 1 << 20, MIN_VERSION = 1, MAX_VERSION = 10 };

static td_status bad(ts_archive *ar, td_status code, const char *what) {
  return base_fail(ar->err, code, ar->file, -1, "%s", what);
}

static const fmt_zip_entry *member(const ts_archive *ar, const char *name) {
  return fmt_zip_member(&ar->zip, ar->folder, base_str_of(name));
}

static td_status read_member(ts_archive *ar, const fmt_zip_entry *e, base_str *text) {
  const uint8_t *data = NULL;
  if (e->bytes / MAX_UNPACK > ar->size + SLACK)
    return bad(ar, TD_BAD_FILE, "an entry is packed too tightly to be genuine");
  td_status status = fmt_zip_read(ar->arena, &ar->zip, e, &data, ar->err);
  if (status != TD_OK) return base_error_name(ar->err, status, "%s", ar->file);
  *text = (base_str){(const char *)data, e->bytes};
  return TD_OK;
}

bool ts_archive_sniff(const void *bytes, size_t size) {
  if (size >= 8 && memcmp(bytes, "PYTORCH1", 8) == 0) return true;
  return fmt_zip_sniff(bytes, size);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static td_status refuse_old(ts_archive *ar) {
  if (ar->size >= 8 && memcmp(ar->bytes, "PYTORCH1", 8) == 0)
    return bad(ar, TD_UNSUPPORTED,
               "the file is in PyTorch 1.0's preview format (PYTORCH1); load it there and save it again");
  return TD_OK;
}

static td_status refuse_others(ts_archive *ar) {
  if (member(ar, "constants.pkl") && member(ar, "data.pkl")) return TD_OK;
  if (member(ar, "model.json"))
    return bad(ar, TD_UNSUPPORTED,
               "the archive is of PyTorch 1.3 or older (model.json); load it there and save it again");
  if (member(ar, "bytecode.pkl"))
    return bad(ar, TD_UNSUPPORTED,
               "the archive holds bytecode for the lite interpreter and no source; save it with torch.jit.save");
  if (member(ar, "archive_format") || member(ar, "serialized_exported_program.json"))
    return bad(ar, TD_UNSUPPORTED, "the archive is of torch.export (.pt2), not of TorchScript");
  if (member(ar, "data.pkl"))
    return bad(
        ar, TD_UNSUPPORTED,
        "the archive is of torch.save: weights, without a program; torch.jit.save writes a program with its weights");
  return bad(ar, TD_BAD_FILE, "the zip archive is no TorchScript: it has no data.pkl and constants.pkl");
}

/* ---- version and byte order -------------------------------------------------------------------------------------- */

static td_status read_version(ts_archive *ar) {
  const fmt_zip_entry *e = member(ar, ".data/version");
  base_str text = {"", 0};
  if (!e) e = member(ar, "version");
  if (!e) return bad(ar, TD_BAD_FILE, "the archive does not say its version");
  TRY(read_member(ar, e, &text));
  while (text.length && (text.at[text.length - 1] == '\n' || text.at[text.length - 1] == '\r')) text.length--;
  if (!base_str_int(text, &ar->version) || ar->version < MIN_VERSION)
    return bad(ar, TD_BAD_FILE, "the archive's version is no number");
  if (ar->version > MAX_VERSION)
    return base_fail(ar->err, TD_UNSUPPORTED, ar->file, -1,
                     "the archive has operator-set version %lld; versions %d to %d are known", (long long)ar->version,
                     MIN_VERSION, MAX_VERSION);
  e = member(ar, "byteorder");
  if (!e) return TD_OK;
  TRY(read_member(ar, e, &text));
  if (text.length >= 3 && memcmp(text.at, "big", 3) == 0)
    return bad(ar, TD_UNSUPPORTED, "the file was saved on a big-endian machine");
  return TD_OK;
}

/* ---- pickles ----------------------------------------------------------------------------------------------------- */

static td_status read_pickle(ts_archive *ar, const char *name, fmt_object **root) {
  const fmt_zip_entry *e = member(ar, name);
  base_str text = {"", 0};
  size_t at = 0;
  TRY(read_member(ar, e, &text));
  td_status status = fmt_pickle_read(ar->arena, text.at, text.length, &at, root, ar->err);
  if (status == TD_OK) return TD_OK;
  if (ar->err->offset >= 0 && e->method == 0) ar->err->offset += (const uint8_t *)text.at - ar->bytes;
  return base_error_name(ar->err, status, "%s", name);
}

static td_status storage_folder(ts_archive *ar, const char *name, fmt_storage_set *set) {
  char *folder = base_arena_format(ar->arena, "%.*s%s", (int)ar->folder.length, ar->folder.at, name);
  if (!folder) return base_no_memory(ar->err, ar->file);
  set->folder = base_str_of(folder);
  return TD_OK;
}

void ts_archive_keep(ts_archive *ar, base_arena *keep) {
  fmt_storage_set *sets[2] = {&ar->data, &ar->constants};
  for (size_t i = 0; i < 2; i++)
    *sets[i] = (fmt_storage_set){
        .arena = keep, .file = ar->bytes, .size = ar->size, .zip = &ar->zip, .folder = sets[i]->folder, .err = ar->err};
}

td_status ts_archive_open(ts_archive *ar, base_arena *arena, const import_source *source, td_error *err) {
  *ar = (ts_archive){.arena = arena, .bytes = source->bytes, .size = source->size, .file = source->file, .err = err};
  TRY(refuse_old(ar));
  td_status status = fmt_zip_open(arena, source->bytes, source->size, &ar->zip, err);
  if (status != TD_OK) return base_error_name(err, status, "%s", source->file);
  ar->folder = fmt_zip_folder(&ar->zip);
  TRY(refuse_others(ar));
  TRY(read_version(ar));
  TRY(storage_folder(ar, "data/", &ar->data));
  TRY(storage_folder(ar, "constants/", &ar->constants));
  TRY(read_pickle(ar, "data.pkl", &ar->root));
  TRY(read_pickle(ar, "constants.pkl", &ar->constant_tuple));
  if (ar->constant_tuple->kind != FMT_OBJ_TUPLE) return bad(ar, TD_BAD_FILE, "constants.pkl holds no tuple");
  if (ar->root->kind != FMT_OBJ_INSTANCE) return bad(ar, TD_BAD_FILE, "data.pkl holds no module");
  return TD_OK;
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

static td_status parse_member(ts_archive *ar, const fmt_zip_entry *e, const char *name, ts_source **out) {
  base_str text = {"", 0};
  TRY(read_member(ar, e, &text));
  *out = base_new(ar->arena, ts_source, 1);
  if (!*out) return base_no_memory(ar->err, name);
  (*out)->file = name;
  return ts_parse(ar->arena, text, *out, ar->err);
}

td_status ts_archive_source(ts_archive *ar, base_str path, ts_source **out) {
  const uint32_t *known = base_map_get(&ar->sources, path);
  if (known) {
    *out = ar->files.at[*known];
    return TD_OK;
  }
  *out = NULL;
  char *name = base_arena_format(ar->arena, "code/%.*s.py", (int)path.length, path.at);
  char *key = base_arena_slice(ar->arena, path.at, path.length);
  if (!name || !key) return base_no_memory(ar->err, ar->file);
  for (char *c = name + 5; c < name + 5 + path.length; c++)
    if (*c == '.') *c = '/';
  const fmt_zip_entry *e = member(ar, name);
  if (e) TRY(parse_member(ar, e, name, out));
  ts_source **slot = base_vec_push(ar->arena, &ar->files);
  if (!slot || !base_map_put(&ar->sources, ar->arena, (base_str){key, path.length}, ar->files.count - 1, NULL))
    return base_no_memory(ar->err, ar->file);
  *slot = *out;
  return TD_OK;
}
