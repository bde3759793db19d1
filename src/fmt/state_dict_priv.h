/* state_dict_priv.h -- how the readers of this room fill a dictionary. */
#ifndef FMT_STATE_DICT_PRIV_H
#define FMT_STATE_DICT_PRIV_H
#include "fmt/state_dict.h"
#include "fmt/zip.h"

/* Fills `dict` from the file; whoever calls it makes and frees the dictionary. `raw_as`: see fmt_npy_read. */
typedef td_status (*fmt_fill_fn)(fmt_state_dict *dict, const uint8_t *file, size_t size, td_dtype raw_as,
                                 td_error *err);
/* Makes a dictionary and fills it; frees it when that fails. */
td_status fmt_dict_open(const td_allocator *allocator, const void *bytes, size_t size, fmt_fill_fn fill,
                        td_dtype raw_as, fmt_state_dict **out, td_error *err);
/* Adds an entry; `name` must live as long as the arena. A name for the second time is TD_BAD_FILE. */
td_status fmt_dict_add(fmt_state_dict *dict, base_str name, const base_tensor *tensor, td_error *err);
#endif
