/* strassen_priv.h -- a matrix product with packed B by one step of Strassen's recursion: seven products of half
 * matrices instead of eight. */
#ifndef KERNELS_STRASSEN_PRIV_H
#define KERNELS_STRASSEN_PRIV_H
#include "kernels/gemm_priv.h"

/* Does it pay for `rows` rows of a sample? From the sizes alone, so that the bits of a sample depend on nothing else.
 */
bool KERN_NAME(strassen_pays)(int64_t rows, int64_t n, int64_t k);
/* g, whose m is a multiple of `rows`: every sample of so many rows by itself. Only where it pays. */
td_status KERN_NAME(strassen)(const base_call *call, const gemm_product *g, int64_t rows);
#endif
