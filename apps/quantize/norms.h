/* norms.h -- batch norms behind convolutions. */
#ifndef QUANTIZE_NORMS_H
#define QUANTIZE_NORMS_H
#include "write.h"

/* Appends the model with the norms of constants, that alone read a convolution's result, in its weights. *found: there
 * are any; else nothing is written. */
td_status quant_fold_norms(quant_model *m, base_text *out, bool *found, td_error *err);
#endif
