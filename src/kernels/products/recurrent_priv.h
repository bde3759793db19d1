/* recurrent_priv.h -- what layers over time (products/wide/recurrent.c) and their steps
 * (products/wide/recurrent_steps.c) share.
 *
 * A block is one direction of some sequences. The inputs' part of all its gates is a product over a chunk of steps at
 * once, kept as `sums`; then each step multiplies the states with the panels of r, the sums of a panel's units stay in
 * registers, and the cell is computed on them there. Every sum is bias, then the inputs, then the states, each in
 * order, whatever the chunks and blocks.
 *
 * r of one sequence is used once a step, and comes from the second- or third-level cache: that binds. So its inputs'
 * part is cut into pieces that are computed beside r, where multipliers have time: while a chunk of some steps runs,
 * the sums of the next are made. The more steps, the fewer times the inputs' weights are read besides; but those of the
 * first chunk have nothing to stand beside. Where r fills even the third level (kern_tuning's woven_bytes), the inputs'
 * weights would drive it out: then they come first, for many steps at once. */
#ifndef KERNELS_RECURRENT_PRIV_H
#define KERNELS_RECURRENT_PRIV_H
#include "base/call.h"
#include "kernels/products/recurrent.h"
#include "kernels/simd/simd_priv.h"

/* Sequences of a block, at most; times the four gates of an LSTM they fill the registers. The level scalar is there to
 * be compared with: it takes each alone. */
enum { RECURRENT_ROWS = V_LANES == 1 ? 1 : V_REGISTERS == 32 ? 6 : 3 };
/* Where they are many, blocks of so few waste less of a batch that the others do not divide. */
enum { RECURRENT_SOME = V_REGISTERS == 32 ? 4 : RECURRENT_ROWS };
/* Steps of a chunk of one sequence; sums of two chunks are kept. */
enum { RECURRENT_SHORT, RECURRENT_LONG, RECURRENT_CHUNKS };
enum { RECURRENT_SHORT_STEPS = 8, RECURRENT_LONG_STEPS = 16, RECURRENT_RING = 2 * RECURRENT_LONG_STEPS };

typedef struct recurrent_block recurrent_block;
/* Brings the states into the form that r meets. */
typedef void recurrent_prepare(recurrent_block *k);

/* What a state of 8 bits stands for: (q - zero) * scale; the sum of all q - zero. */
typedef struct recurrent_range {
  float scale;
  int32_t zero, sum;
} recurrent_range;

typedef struct recurrent_layer {
  const base_call *call;
  const base_tensor *x, *h0, *c0; /* h0, c0: NULL: zeros */
  float *y, *last, *last_memory;  /* NULL: not wanted */
  const int64_t *lengths;         /* of each sequence, at most `time`; NULL: all are as long as that */
  int64_t time, batch, input, hidden, dirs, gates, chunk;
  int64_t units, panels; /* hidden units of a panel; panels */
  int64_t padded, width; /* units of all panels; their sums */
  bool reverse, batch_first, linear_before_reset;
  bool plain, relu;           /* the gates are units of their own */
  bool made;                  /* x is the sums of the inputs, of all directions */
  bool rests;                 /* r is tiles of bf16, and the states two numbers of it */
  kern_i8_layout bytes;       /* of r of 8 bits */
  td_dtype states;            /* of what r meets: f32, bf16 or u8 */
  recurrent_prepare *prepare; /* NULL: it meets them as they are */
  int64_t rows;               /* sequences of a block, at most */
  bool weave;                 /* one sequence has steps enough for pieces */
  int pieces;                 /* RECURRENT_SHORT or RECURRENT_LONG */
  bool together;              /* all workers compute one block, each some of its panels */
} recurrent_layer;

/* Its place in the layer, and its scratch. Rows past `count` are computed and dropped. */
struct recurrent_block {
  const recurrent_layer *l;
  const float *w, *bias, *peepholes; /* of its direction; the last two may be NULL */
  const void *r;
  int64_t direction, first, count;
  int64_t time; /* steps of its longest sequence; what shorter ones do behind their last is dropped */
  bool backward;
  int64_t panel, panel_end; /* that are to be computed */
  float *sums;              /* [steps of a chunk, count, panels, gates, V_LANES]: width */
  float *state, *next;      /* [rows, padded] */
  float *memory;            /* the same: c of an LSTM, z of a GRU */
  float *kept;              /* the same: the reset state of a GRU */
  float *transposed;        /* x, [input, V_LANES]: of as many steps */
  /* Where r is tiles: the state, and behind those of all sequences what rounding took; [rows or 2 * count,
   * kern_recurrent_tiled(hidden)]. Where it is bytes: the states in these, byte_x, of `ranges`. */
  uint16_t *halves;
  recurrent_range ranges[RECURRENT_ROWS];
};

V_INLINE int64_t recurrent_length(const recurrent_block *k, int64_t sequence) {
  return k->l->lengths ? k->l->lengths[k->first + sequence] : k->l->time;
}

/* Where in time `step` of a sequence of the block is. Behind its last step: none of those that it has. */
V_INLINE int64_t recurrent_time(const recurrent_block *k, int64_t sequence, int64_t step) {
  if (!k->backward) return step;
  const int64_t length = recurrent_length(k, sequence);
  return step < length ? length - 1 - step : step;
}

/* The place of x at `step` of row `row`; rows past the block's are of the steps behind. */
V_INLINE const float *recurrent_input(const recurrent_block *k, int64_t row, int64_t step) {
  const recurrent_layer *l = k->l;
  const int64_t sequence = row % k->count, b = k->first + sequence;
  const int64_t t = recurrent_time(k, sequence, step + row / k->count);
  return (const float *)l->x->data + t * l->x->strides[l->batch_first] + b * l->x->strides[!l->batch_first];
}

/* Computes the block's panels [panel, panel_end). */
typedef void recurrent_panels(const recurrent_block *k, int64_t step, int64_t other);

/* A step whose second phase, if there is one, needs all panels of the first. */
enum { RECURRENT_PHASES = 2 };

typedef struct recurrent_cell {
  int64_t gates;
  int64_t rows; /* sequences of a block, at most */
  bool rests;   /* states are two numbers of bf16 where r is tiles, not one */
  recurrent_prepare *prepare;
  /* The sums of inputs of `other` steps from `step` on. */
  recurrent_panels *inputs;
  /* A step whose sums are number `other`: of one sequence, of two, of RECURRENT_SOME, of RECURRENT_ROWS. The state goes
   * to k->next. */
  recurrent_panels *step[4][RECURRENT_PHASES];
  /* Weaving, with chunks of short or long: the sums of the first chunk, of `other` steps; then each step in turn, with
   * pieces of the next chunk's sums beside it. The inputs of a chunk are transposed before its sums
   * begin. NULL: not at this level. */
  void (*turn)(const recurrent_block *k, int64_t step);
  recurrent_panels *begin;
  recurrent_panels *woven[RECURRENT_CHUNKS][RECURRENT_PHASES];
} recurrent_cell;
/* The first is of plain layers, too. */
extern const recurrent_cell KERN_NAME(lstm_cell), KERN_NAME(gru_cell);
/* The states of a panel's units after `step`, whose sums of inputs are number `slot`, from the sums of their gates:
 * [count][gates][V_LANES]. Those of a GRU are of the form whose candidate's product comes before the reset gate, and
 * that of the candidate has no inputs yet. */
typedef void recurrent_states(const recurrent_block *k, int64_t step, int64_t slot, int64_t panel, const float *sums);
recurrent_states KERN_NAME(lstm_states), KERN_NAME(gru_states);
/* As numbers of bf16. */
recurrent_prepare KERN_NAME(recurrent_halves);
/* Layers whose r is tiles of bf16, or bytes. */
td_status KERN_NAME(recurrent_by)(const base_call *call, const recurrent_cell *cell);
#endif
