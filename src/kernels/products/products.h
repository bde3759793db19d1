/* products.h -- what multiplies weights, for who makes and packs them: the operators of products, and how packed
 * weights lie. */
#ifndef KERNELS_PRODUCTS_H
#define KERNELS_PRODUCTS_H
#include "kernels/products/conv.h"
#include "kernels/products/expand.h"
#include "kernels/products/pack.h"
#include "kernels/products/pack_conv.h"
#include "kernels/products/pack_i8.h"
#include "kernels/products/pack_nbits.h"
#include "kernels/products/pack_winograd.h"
#include "kernels/products/packing.h"
#include "kernels/products/recurrent.h"
#include "kernels/products/winograd_nonfinite.h"
#endif
