/* fuse.h -- fused loops: which nodes run as one, and which loops run inside a product. Both are rows of passes.def. */
#ifndef FUSE_FUSE_H
#define FUSE_FUSE_H
#include "base/speed.h"
#include "ir/ir.h"
#include "kernels/kernels.h"

/* Fusion decisions, for users. */
typedef struct fuse_log {
  base_text *text;   /* receives a line for each one */
  base_arena *arena; /* holds `why` */
  const char **why;  /* per node that fuse_groups has seen: why it is not in a larger loop; NULL: it is */
  uint32_t count;    /* of them */
} fuse_log;

typedef struct fuse_setting {
  uint32_t isa;            /* BASE_ISA_* that kernels may use */
  bool compiled;           /* loops become machine code; else they are interpreted */
  const char *alone;       /* as td_load_options.alone */
  int64_t front_least;     /* as compile_setting.front_least */
  const base_speed *speed; /* of this machine; NULL: nothing is known of it */
  fuse_log *log;           /* may be NULL */
} fuse_setting;

/* Fuses nodes that can run as one loop. Adds the number of loops to *changes. */
td_status fuse_groups(ir_graph *graph, const fuse_setting *setting, uint32_t *changes, td_error *err);
/* Moves fused loops into the products before or after them, where that saves more than it costs. Adds the number of
 * loops moved to *changes. */
td_status fuse_chains(ir_graph *graph, const fuse_setting *setting, uint32_t *changes, td_error *err);
/* Is the node a loop, or an operator that can be one, over floats, all of which it reads and stores in order? */
bool fuse_may_narrow(const ir_graph *graph, uint32_t isa, base_arena *scratch, const ir_node_def *node);
/* A loop in the place of such a node. */
typedef struct fuse_narrowed {
  ir_op_id op;
  const int64_t *words, *from; /* its attributes */
  uint32_t word_count, from_count;
  const ir_value *in;
  uint32_t in_count;
} fuse_narrowed;
/* The loop that stores result k as bf16 where `narrow` has bit k, and may read bf16; in the scratch. */
td_status fuse_narrow(const ir_graph *graph, uint32_t isa, base_arena *scratch, const ir_node_def *node,
                      uint32_t narrow, fuse_narrowed *to, td_error *err);
/* The loops of a graph as text; with a log in the setting also why unfused nodes were left
 * alone. */
td_status fuse_print(const ir_graph *graph, const fuse_setting *setting, base_text *text, td_error *err);
/* `loops`, as fuse_print made them, behind a line by which fuse_take_edited knows whether somebody has changed them. */
void fuse_mark(const base_text *loops, base_text *to);
/* Replaces the loops of the graph that differ from `text`, which fuse_print made and a user may have edited; `file` is
 * its name, for errors. Operands and types of results must be unchanged. */
td_status fuse_take_edited(ir_graph *graph, const char *text, size_t length, const char *file, td_error *err);

/* The program of a fused loop or of a chain. */
typedef struct fuse_loop {
  const base_attrs *attrs;
  const int64_t *words;
  uint32_t word_count;
  bool chain; /* of a product: operand 0 is the product's result, or, `front`, that of the product, too */
  bool front;
  uint32_t in_count;
} fuse_loop;
/* False: the operator has none, or its operands are not among `in_count`. */
bool fuse_program_of(const ir_op *op, const base_attrs *attrs, uint32_t in_count, fuse_loop *loop);
/* The query of a node for `lower` and for choosing a kernel. NULL: out of memory. */
ir_kernel_query *fuse_query(const ir_graph *graph, uint32_t isa, base_arena *scratch, const ir_node_def *node);
#endif
