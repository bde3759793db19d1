/* pack_winograd.h -- weights of 3x3 convolutions for Winograd's minimal filtering F(tile x tile, 3 x 3), after Lavin
 * and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015: U = G w Gt for every pair of
 * channels, in double and rounded once. Each of the (tile + 2)^2 elements of U is a matrix of its own, in panels of
 * output channels:
 *
 *     packed[element][group][channel / panel][channel in][channel % panel]
 *
 * Channels are those of a group; the last panel of each is padded with zeros. A kernel of several planes in depth has
 * (depth, channel in) for channels in. Small groups share panels where
 * kern_conv_shared says so of those numbers. */
#ifndef KERNELS_PACK_WINOGRAD_H
#define KERNELS_PACK_WINOGRAD_H
#include "kernels/products/conv.h"
#include "kernels/products/pack_conv.h"

/* The most planes of a kernel, and the widest dilation within a plane. */
enum { KERN_WINOGRAD_DEPTH = 8, KERN_WINOGRAD_DILATION = 64 };
/* F(4x4, 3x3) interpolates at 0, P, -P, Q, -Q and infinity. With 5/8 and 3/2, whose powers and products are exact in
 * f32, it rounds half as badly as with Lavin and Gray's 1 and 2; F(2x2, 3x3) has 0, 1, -1 and infinity. */
#define KERN_WINOGRAD_P 0.625f
#define KERN_WINOGRAD_Q 1.5f
/* Floats of the packed form; `tile` is 2 or 4; channels and channels_in are a group's, the latter times the planes of
 * the kernel. False: overflow, or a size that is negative. */
bool kern_winograd_packed_size(int64_t tile, int64_t groups, int64_t channels, int64_t channels_in, int64_t panel,
                               int64_t *count);
/* Packs w [groups * channels, channels in, 3, 3] or [groups * channels, channels in, depth, 3, 3], f32 of any strides;
 * w[c] times scale[c], where that is not NULL. `to` has kern_winograd_packed_size floats. */
void kern_pack_winograd(const base_tensor *w, const base_f32 *scale, int64_t groups, int64_t tile, int64_t panel,
                        float *to);

/* What the choice of a tile depends on. */
typedef struct kern_winograd_layer {
  int64_t planes, height, width;                /* of the output of a sample */
  int64_t dilation[2];                          /* along height and width */
  int64_t depth, groups, channels_in, channels; /* of a group */
  double direct_speed;                          /* of td::conv, in units of that of f32 */
  int64_t direct_bytes;                         /* of one of its weights */
} kern_winograd_layer;
/* The tile with which td::winograd_conv is likely to be fastest: 2, or where `widest` is 4, 4; 0: td::conv is. From
 * sizes alone, by figures measured on one core (pack_winograd.c). It rounds otherwise than a plain sum and its weights
 * take (tile + 2)^2 / 9 of the plain ones: whether that may be is for the caller to say. */
int64_t kern_winograd_tile(const kern_winograd_layer *layer, int64_t panel, int64_t widest);

/* One of a model's convolutions, and the tile that is chosen for it. */
typedef struct kern_winograd_choice {
  kern_winograd_layer layer;
  int64_t panel, widest; /* widest: the largest tile allowed, 0: none */
  int64_t tile;          /* 0: td::conv */
} kern_winograd_choice;
/* Sets the tiles of `count` choices, so that their weights take at most `bytes` more than the plain ones: what saves
 * most for its bytes comes first. */
void kern_winograd_choose(kern_winograd_choice *choices, uint32_t count, double bytes);

/* The multiple of a plain sum's rounding error up to which the default takes Winograd's algorithm. */
#define KERN_WINOGRAD_NEAR 4.0
/* The root mean square of the rounding error of F(tile x tile, 3 x 3) on these weights as a multiple of that of a plain
 * sum, in the channel where it is worst. Both are what is expected of inputs that are noise of one size: a chain of
 * roundings, each in proportion to the partial sum it rounds. Taken over at most 32 output channels that are spread
 * evenly; 0: their weights are all zeros; infinity: one is not finite. F(2 x 2) is always near 1. */
double kern_winograd_error(const base_tensor *w, int64_t tile);
#endif
