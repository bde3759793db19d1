/* lower_priv.h -- the state of one lowering. */
#ifndef LOWER_LOWER_PRIV_H
#define LOWER_LOWER_PRIV_H
#include "lower/lower.h"

#include <string.h>

/* How the elements of a slot lie: densely; the last dimension densely, in rows of one pitch; in any way. */
enum { LOWER_DENSE, LOWER_PITCHED, LOWER_STRIDED };

/* A value that is made inside the result of a join: from `at` on along `axis` of `whole`. See join.c. */
typedef struct lower_part {
  ir_value whole; /* none: the value has a place of its own */
  int64_t at;
  int32_t axis;
  bool made_there; /* by its own step; else that makes it elsewhere, and it is copied */
  bool joined;     /* the value is a join whose operands are parts of it, or of its whole */
} lower_part;

typedef struct lowering {
  const ir_graph *graph;
  const lower_setting *setting;
  plan_exe *plan;
  base_arena *scratch;
  uint32_t *slot_of;    /* per value; PLAN_NONE: none yet */
  uint32_t *segment_of; /* per segment of the graph; PLAN_NONE: none yet */
  uint8_t *layout;      /* per slot: LOWER_*, as far as it is known now */
  uint32_t layout_cap;
  lower_part *parts; /* per value */
  uint32_t *uses;    /* per value */
  bool *held;        /* per value: a list of a loop or task holds it, which it is to last for */
  bool open_sizes;   /* some step's work is not known */
  td_error *err;
} lowering;

/* Sizes are known once the input shapes are. */
bool lower_is_planned(const lowering *l, const ir_type *type);
/* As lower_find_kernel. */
td_status lower_kernel(lowering *l, const ir_node_def *node, const kern_row **kernel);
/* The slot of a value that is used; constants get theirs at first use. *index: PLAN_NONE where there is no value. */
td_status lower_use(lowering *l, ir_value v, uint32_t *index);
/* A new slot for a value, in that place. */
td_status lower_slot_for(lowering *l, ir_value v, plan_place place, uint32_t *index);
/* What the port says but for its slot (ports.c). */
td_status lower_describe_port(lowering *l, const ir_type *type, const char *name, plan_port *port);
/* A slot for what a run is given: an input, or a state. */
td_status lower_given(lowering *l, ir_value v, plan_port *port);
td_status lower_state(lowering *l, uint32_t index);
/* How the view lies that `node` makes of a dense value: LOWER_*, LOWER_STRIDED where that depends on an open size or on
 * an operand that is not known now (layout.c). */
td_status lower_view_layout(lowering *l, const ir_node_def *node, uint8_t *layout);
/* Fills l->parts. */
td_status lower_find_joins(lowering *l);
#endif
