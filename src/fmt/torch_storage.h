/* torch_storage.h -- the storages of PyTorch's files, and the tensors over them. In an archive each storage is an entry
 * of its own; in the older form they stand one after another, and their reader adds them as records. */
#ifndef FMT_TORCH_STORAGE_H
#define FMT_TORCH_STORAGE_H
#include "fmt/pickle.h"
#include "fmt/zip.h"

/* The bytes of a storage. */
typedef struct fmt_record {
  const uint8_t *data;
  size_t bytes;
} fmt_record;

/* Start with {.arena, .file, .size, .err} and, of an archive, {.zip, .folder}. */
typedef struct fmt_storage_set {
  base_arena *arena; /* of what must be copied: inflated entries, bools that are neither 0 nor 1 */
  const uint8_t *file;
  size_t size;
  const fmt_zip *zip; /* NULL: only records that were added */
  base_str folder;    /* "archive/data/": storage `key` is the entry of that name in it */
  BASE_VEC(fmt_record) records;
  base_map by_key;     /* of records */
  size_t bools_looked; /* bytes that bool tensors were checked over: many may share a storage */
  td_error *err;
} fmt_storage_set;

enum { FMT_MAX_ENTRY_NAME = 512 };
/* The entry <folder><name>, NULL when there is none. */
const fmt_zip_entry *fmt_zip_member(const fmt_zip *zip, base_str folder, base_str name);
/* The folder under which PyTorch puts all of an archive: up to and with the first '/' of the first name; or nothing. */
base_str fmt_zip_folder(const fmt_zip *zip);

td_status fmt_add_record(fmt_storage_set *set, base_str key, const uint8_t *data, size_t bytes);
/* The tensor as a view of its storage, of any strides. Checks that it lies inside, and inside the file. */
td_status fmt_storage_view(fmt_storage_set *set, const fmt_stored_tensor *tensor, base_tensor *out);
#endif
