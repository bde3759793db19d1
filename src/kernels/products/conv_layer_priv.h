/* conv_layer_priv.h -- how KERN_CONV cuts a layer: into the runs of a pixel, panels, and blocks that are tasks. */
#ifndef KERNELS_CONV_LAYER_PRIV_H
#define KERNELS_CONV_LAYER_PRIV_H
#include "kernels/products/conv.h"
#include "kernels/products/conv_table_priv.h"
#include "kernels/products/gemm_priv.h"

typedef struct conv_layer {
  kern_conv c;
  kern_epilogue e;          /* but for the chain */
  kern_chain *chain;        /* on blocks, where sums are through all else; NULL: there is none */
  kern_chain *front;        /* makes the image's pixels, those that a block sees at a time; NULL: there is none */
  const gemm_pairs *pairs;  /* pixels are rounded to bf16, and channels in are pairs; NULL: they are f32 */
  bool copied;              /* pixels are bf16, but not whole pairs */
  bool made;                /* pixels are, by one of these */
  int64_t raw_pitch, width; /* elements from pixel to pixel of x, and of one */
  bool pixels_alone;        /* each output pixel sees the input pixel of its number, and no other */
  const kern_tuning *tuning;
  const float *image, *weights;
  int64_t sample, plane, line, pixel, channel; /* floats from one to the next of the image */
  int64_t skipped;                             /* floats of a sample in front of `image` */
  float *out;
  int64_t out_pitch;
  gemm_bf16 bf16;
  bool whole_rows;        /* a run is a row of taps */
  bool padded;            /* lines that are converted have zeros around, so that rows of taps lie in them wholly */
  int64_t runs, span;     /* of a pixel; floats of a run */
  int64_t borders;        /* pixels of an output line whose row of taps is copied */
  bool wide_reach;        /* many runs lie outside: tiles leave out those that are so for all of their pixels */
  int64_t maps, pixels;   /* pixels of a map: a sample where lines are converted, else all */
  int64_t shared;         /* groups that share a panel; 1: each has its own */
  bool twins;             /* two groups, of a panel each, are one product, of two panels that read their own channels */
  int64_t panels, strips; /* of a group; a strip's panels go into one tile */
  int64_t slices;         /* of the runs, whose weights stay near while all tiles of a block meet them */
  cut in_strips;          /* panels */
  int64_t strips_at_once; /* their results stay in L1 */
  int64_t lone;           /* columns behind all panels, done with the last strip */
  int64_t products;       /* groups, or twos of them; or 1 where they share panels: then all are done together */
  int64_t tile_rows;
  int64_t m_blocks, n_blocks, product_blocks; /* blocks of pixels in a map, of strips in a group, of products */
} conv_layer;

/* The layer of a call; `pairs`: how its weights, which are pairs of bf16, are multiplied; NULL: they are f32. Fails as
 * calls do. */
td_status KERN_NAME(conv_layer_of)(const base_call *call, const gemm_pairs *pairs, conv_layer *l);
#endif
