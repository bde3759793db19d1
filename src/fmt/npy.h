/* npy.h -- NumPy's .npy, versions 1 to 3, read and write.
 *
 * Memory: a C-ordered little-endian array is a view into the file; big-endian and Fortran-ordered ones, and packed
 * types, are converted into the arena, at most one byte per byte of file. */
#ifndef FMT_NPY_H
#define FMT_NPY_H
#include "base/base.h"

/* Reads the file of `size` bytes. NumPy has no name for bf16 and the 8-bit and packed floats and integers; what writes
 * them uses void types of their size (<V2, |V1; packed types one element per byte): `raw_as` says what those are, or is
 * TD_INVALID to refuse them. It changes nothing for arrays whose type has a name.
 * TD_BAD_FILE: damaged, or sizes disagree. TD_UNSUPPORTED: objects, structs, strings, complex, more than 8 dimensions.
 */
td_status fmt_npy_read(base_arena *arena, const void *bytes, size_t size, td_dtype raw_as, base_tensor *out,
                       td_error *err);

/* Appends the file for `tensor` to `out`: version 1, C order, little-endian, data at a multiple of 64 bytes. Strides
 * are honoured. TD_UNSUPPORTED: strings. TD_NO_RESOURCE: out of memory. */
td_status fmt_npy_write(base_text *out, const base_tensor *tensor, td_error *err);
#endif
