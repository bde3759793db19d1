/* strassen_priv.h -- a matrix product with packed B by one step of Strassen's recursion: seven products of half
 * matrices instead of eight. */
#ifndef KERNELS_STRASSEN_PRIV_H
#define KERNELS_STRASSEN_PRIV_H
#include "kernels/products/gemm_priv.h"

/* g, whose m is a multiple of `rows`: every sample of so many rows by itself. Only where kern_strassen_pays. */
td_status KERN_NAME(strassen)(const base_call *call, const gemm_product *g, int64_t rows);
#endif
