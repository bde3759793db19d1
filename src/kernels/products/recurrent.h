/* recurrent.h -- weights of recurrent layers as their kernels read them: the gates of `panel` hidden units side by
 * side,
 *
 *     w[direction][unit / panel][k][gate][unit % panel]     k: an input, or a hidden unit of the step before
 *     bias[direction][unit / panel][4][unit % panel]
 *     peepholes[direction][unit / panel][3][unit % panel]   of an LSTM's gates i, o, f
 *
 * zeros behind the last unit: one walk along k gives all gates of the same units. A panel is as wide as a vector of its
 * level (kern_row.lanes). Gates stand in ONNX's order, i o f c and z r h; a bias holds the sum of input's and state's,
 * and as the fourth vector of a GRU what is added to the candidate's state product before the reset gate. A plain layer
 * has one gate, and panels of KERN_PLAIN_VECTORS vectors: they take the place of an LSTM's gates. Those of a state may
 * be of bf16, tiles of pairs of rows with zeros behind the last:
 *
 *     r[direction][unit / panel][k / 32][gate][k % 32 / 2][unit % panel][k % 2]
 *
 * or of 8 bits, which meet states rounded to that: one constant of pack_i8.h, whose groups are directions and whose
 * columns are [unit / panel][gate][unit % panel]; its bias is what is to be subtracted from each column's weights. */
#ifndef KERNELS_RECURRENT_H
#define KERNELS_RECURRENT_H
#include "kernels/attrs.h"
#include "kernels/products/pack_i8.h"

enum { KERN_RECURRENT_BIASES = 4, KERN_RECURRENT_PEEPHOLES = 3, KERN_PLAIN_VECTORS = 4, KERN_RECURRENT_TILE_ROWS = 32 };

typedef struct kern_recurrent {
  int64_t directions, gates, hidden, panel;
} kern_recurrent;
/* Floats of the packed weights over `k` rows, and of the packed bias and peepholes; false on overflow or a size below 0
 * (a panel below 1). */
bool kern_recurrent_count(const kern_recurrent *r, int64_t k, size_t *count);
bool kern_recurrent_bias_count(const kern_recurrent *r, size_t *count);
bool kern_recurrent_peephole_count(const kern_recurrent *r, size_t *count);
/* Rows that tiles of `k` rows have; k is at most INT64_MAX - KERN_RECURRENT_TILE_ROWS. */
static inline int64_t kern_recurrent_tiled(int64_t k) {
  return (k + KERN_RECURRENT_TILE_ROWS - 1) / KERN_RECURRENT_TILE_ROWS * KERN_RECURRENT_TILE_ROWS;
}
/* Numbers of bf16 of such tiles. */
bool kern_recurrent_tile_count(const kern_recurrent *r, int64_t k, size_t *count);
/* Columns of all sums of a layer: of each direction, panel and gate. */
int64_t kern_recurrent_columns(const kern_recurrent *r);
/* Those of a layer, as rows of w: direction * gates * hidden + gate * hidden + unit; -1: padding. */
int64_t kern_recurrent_row(const kern_recurrent *r, int64_t column);
/* Of weights of 8 bits over `k` rows; false: out of range. */
bool kern_recurrent_bytes(const kern_recurrent *r, int64_t k, int64_t depth, kern_i8_layout *l);
/* `w`: f32 [directions, gates * hidden, k] of any strides. */
void kern_recurrent_pack(float *to, const kern_recurrent *r, const base_tensor *w);
/* The same as a matrix [k, kern_recurrent_columns], whose product with the inputs is the sums of these: x of a layer
 * without w. */
void kern_recurrent_pack_matrix(float *to, const kern_recurrent *r, const base_tensor *w);
/* Tiles of packed weights over `k` rows, which are rounded, and these of tiles anywhere in memory. */
void kern_recurrent_narrow(uint16_t *to, const kern_recurrent *r, int64_t k, const float *from);
void kern_recurrent_widen(float *to, const kern_recurrent *r, int64_t k, const base_tensor *tiles);
/* `bias`: f32 [directions, 2 * gates * hidden] of any strides, the input's then the state's. `separate`: keep the
 * state's bias of the last gate as a fourth vector instead of adding it. */
void kern_recurrent_pack_bias(float *to, const kern_recurrent *r, bool separate, const base_tensor *bias);
/* `peepholes`: f32 [directions, 3 * hidden] of any strides. */
void kern_recurrent_pack_peepholes(float *to, const kern_recurrent *r, const base_tensor *peepholes);
#endif
