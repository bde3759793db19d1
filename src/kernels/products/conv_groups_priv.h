/* conv_groups_priv.h -- the tile of convolutions in small groups: groups that share a panel (kern_conv_shared). A lane
 * needs the input channels of its own group alone, so each input vector is permuted, once per channel of a group, such
 * that every lane finds that channel of its group.
 *
 *     panel's lanes   | group 0, channels out 0 1 2 3 | group 1 ... |
 *     channel in 2    | x2      x2     x2     x2      | x6  ...     |        of x0 x1 x2 x3 | x4 ...
 */
#ifndef KERNELS_CONV_GROUPS_PRIV_H
#define KERNELS_CONV_GROUPS_PRIV_H
#include "kernels/simd/simd_priv.h"

enum { CONV_GROUPS_ROWS = 8 }; /* pixels of a tile: as many chains of multiply-adds as hide their latency */

typedef struct conv_groups {
  const float *const *a; /* a[tap * a_pitch + row]: all channels of a pixel */
  int64_t a_pitch, taps;
  const float *b; /* b_panel from panel to panel: [tap][channel in of a group][lane] */
  int64_t b_panel;
  int64_t group_in, group_out, panels;
  float *c; /* rows of panels * V_LANES channels */
  int64_t c_pitch;
} conv_groups;

/* 1 <= rows <= CONV_GROUPS_ROWS pixels, all channels; `e` starts at their first row; NULL: sums alone. */
void KERN_NAME(conv_groups)(const conv_groups *t, int64_t rows, const kern_epilogue *e);
#endif
