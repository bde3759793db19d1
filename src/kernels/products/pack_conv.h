/* pack_conv.h -- weights of convolutions as kernels read them: per group panels of `panel` output channels,
 *
 *     packed[group][channel / panel][tap][channel in][channel % panel]
 *
 * taps in row-major order of the kernel. The last panel of each group is padded with zeros. Those of bf16, of one
 * group, come in pairs of channels in, padded tap by tap (kern_pack_pairs). Of an image with channels first, where
 * these are few, a row of taps is one tap of all its numbers, in pairs: each pixel has kern_row_channels of them, zeros
 * behind its channels. Small groups share a panel:
 *
 *     packed[group / shared][tap][channel in][group % shared * (channels of a group) + channel]
 *
 * For tiles of pairs they are one group of `shared` times as many channels in and out, with zeros where a channel out
 * meets those of other groups. Where channels out are few, tiles have the taps of a row as columns, and a tap of the
 * packed weights is a row of them:
 *
 *     packed[column / panel][row of taps][channel in][column % panel], column: tap of the row * channels out + channel
 */
#ifndef KERNELS_PACK_CONV_H
#define KERNELS_PACK_CONV_H
#include "kernels/products/conv.h"
#include "kernels/products/pack.h"

/* How many groups share a panel; 1: none. Those of transposed convolutions do not. */
int64_t kern_conv_shared(bool transposed, int64_t groups, int64_t group_out, int64_t group_in, int64_t panel);
/* Floats of the packed form. False: overflow, or a size that is negative. */
bool kern_conv_packed_size(bool transposed, int64_t groups, int64_t group_out, int64_t taps, int64_t group_in,
                           int64_t panel, int64_t *count);
/* Numbers of a pixel of which `across` pixels side by side fill whole blocks of pairs (kern_tiles_depth), and none lies
 * behind the last: at least `channels`. 0: there is no such small number. */
int64_t kern_row_channels(int64_t channels, int64_t across);
/* Are these what a pixel has in pairs? Then a row of taps is packed as its taps are. */
bool kern_rows_are_pairs(int64_t channels, int64_t across);
/* The weights w, one group's, as pairs of rows of taps; w[c] times scale[c], where that is not NULL. */
void kern_pack_rows(const base_tensor *w, const base_f32 *scale, int64_t panel, uint16_t *to);
/* Can a convolution's weights be pairs of bf16? Groups have whole panels and whole pairs, or share panels for tiles.
 * How many are one group then; 0: they can't. */
int64_t kern_conv_pairs_shared(int64_t groups, int64_t group_out, int64_t group_in, int64_t panel, bool tiles);
/* A panel of kern_pack_conv that `shared` groups share as pairs of `stored` rows of each tap. */
void kern_pack_shared_pairs(const float *from, int64_t taps, int64_t group_in, int64_t shared, int64_t panel,
                            int64_t stored, uint16_t *to);
/* Columns of packed weights whose columns are taps of a row and channels out: as many as two panels have at most, and
 * half as many panels as the taps of a row have without it. *count: the numbers of these weights, never as many as
 * those of another kind. 0: it does not pay. */
int64_t kern_conv_row_columns(const kern_conv *c, int64_t *count);
/* Packs so the weights w; w[c] times scale[c], where that is not NULL. `to` has `stored` rows of each row of taps. */
void kern_pack_row_columns(const base_tensor *w, const base_f32 *scale, int64_t panel, int64_t stored, uint16_t *to);
/* Are `count` packed weights of this kind? */
bool kern_conv_has_row_columns(const kern_conv *c, td_dtype dtype, int64_t count);
/* Channels in of a group as `count` packed weights have them, of rows of taps the numbers of a row; -1: these do not
 * fit the sizes. */
int64_t kern_conv_stored(bool transposed, const kern_conv *c, td_dtype dtype, int64_t count);
/* Packs w [groups * group_out, group_in, kernel...], or transposed [groups * group_in, group_out, kernel...]: f32 of
 * any strides; w[c] times scale[c], where that is not NULL (never of a transposed one). `to` has kern_conv_packed_size
 * floats. */
void kern_pack_conv(const base_tensor *w, const base_f32 *scale, bool transposed, int64_t groups, int64_t panel,
                    float *to);
#endif
