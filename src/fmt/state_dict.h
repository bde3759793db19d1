/* state_dict.h -- named tensors in a file, in the file's order, whatever the container: torch.save (zip, and the older
 * form without a zip), safetensors, npz.
 *
 * Tensors are views into the caller's bytes, which must outlive the dictionary, wherever the container allows it:
 * always, but for deflated zip entries, big-endian npy and bool bytes other than 0 and 1. They may be strided, have any
 * alignment, and share storage; every element was checked to lie inside its storage. Memory: see each reader's part
 * below. */
#ifndef FMT_STATE_DICT_H
#define FMT_STATE_DICT_H
#include "base/base.h"

typedef struct fmt_named {
  base_str name;
  base_tensor tensor;
} fmt_named;

typedef struct fmt_state_dict {
  base_arena *arena; /* holds all of this, itself included */
  BASE_VEC(fmt_named) entries;
  base_map by_name; /* of entries */
} fmt_state_dict;

/* Opens a file of any of these kinds, distinguished by its bytes. Errors: TD_BAD_FILE, TD_UNSUPPORTED, TD_NO_RESOURCE.
 */
td_status fmt_weights_open(const td_allocator *allocator, const void *bytes, size_t size, fmt_state_dict **out,
                           td_error *err);

/* torch.save of a dictionary of tensors: nested dictionaries become dotted names ("model.fc.weight"), what is neither
 * tensor nor dictionary is passed over; no tensor at all is TD_BAD_FILE. Nothing in the file is executed. Memory: that
 * of pickle.h and zip.h; a deflated pickle may be at most 4 times as large as the file (and 1 MiB), and a tensor that
 * repeats its elements (stride 0) not larger than it. */
td_status fmt_state_dict_open(const td_allocator *allocator, const void *bytes, size_t size, fmt_state_dict **out,
                              td_error *err);

/* safetensors. At most 80 bytes of memory per byte of header, which is at most 100 MB (json.h). */
td_status fmt_safetensors_open(const td_allocator *allocator, const void *bytes, size_t size, fmt_state_dict **out,
                               td_error *err);

/* npz: the entries that end in .npy, without that ending. `raw_as`: see fmt_npy_read. */
td_status fmt_npz_open(const td_allocator *allocator, const void *bytes, size_t size, td_dtype raw_as,
                       fmt_state_dict **out, td_error *err);

/* NULL allowed. */
void fmt_state_dict_free(fmt_state_dict *dict);
/* NULL when there is none of that name. */
const fmt_named *fmt_state_dict_find(const fmt_state_dict *dict, base_str name);
#endif
