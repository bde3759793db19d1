/* fuse_priv.h -- groups of nodes that become one loop: found by fuse.c and again.c, built and put in place by
 * emit.c. */
#ifndef FUSE_FUSE_PRIV_H
#define FUSE_FUSE_PRIV_H
#include "fuse/fuse.h"
#include "loop/loop.h"

#include <string.h>

enum { FUSE_MEMBERS = 64, FUSE_UNKNOWN = 64 };
#define FUSE_NOTHING_BESIDE "nothing beside it is a loop" /* why a node is alone, as long as none else is known */

/* Nodes over one space. They will stand together at one place of the block: every value that they need from outside is
 * defined before it, every user outside stands behind it. */
typedef struct fuse_group {
  int32_t rank, row_axes, behind; /* `row_axes` axes, with `behind` axes behind them, are a row */
  base_dim dims[BASE_MAX_RANK];
  uint32_t members[FUSE_MEMBERS]; /* node ids in the order of the block */
  /* The member is computed here for members of the group alone, as in every other loop that reads it; its space may be
   * one that broadcasts to the group's. */
  bool again[FUSE_MEMBERS];
  uint32_t count;
  double bytes; /* read and written, where sizes that are not known count FUSE_UNKNOWN */
  int64_t at;   /* 2 i: in the place of the block's node i; 2 i - 1: in front of it */
} fuse_group;

typedef struct fuse_state {
  ir_graph *graph;
  const fuse_setting *setting;
  base_arena *scratch;
  td_error *err;
  /* of the block at hand */
  ir_block block;
  uint32_t known;               /* nodes with lower numbers were there before loops were made */
  uint32_t *index;              /* per node: its number in the block + 1; 0: it is in another one */
  uint32_t *group;              /* per node: its group + 1; 0: none */
  fuse_log *log;                /* NULL: nobody asks */
  uint32_t *users, *first_user; /* per value: nodes of the block that use it (id 0: the block's results do) */
  BASE_VEC(fuse_group *) groups;
  bool *repeated; /* per node: it is computed again in all loops that read it */
  bool repeats;   /* there is one */
  uint32_t made;  /* loops */
} fuse_state;

/* A group's program, and what it takes and gives. */
typedef struct fuse_built {
  loop_build build;
  ir_value in[BASE_PROGRAM_OPERANDS], out[BASE_PROGRAM_OUTS];
  uint32_t in_count, out_count;
  uint32_t gathered; /* bit k: operand k is gathered, or holds the indices of one that is */
  uint32_t dropped;  /* bit k: operand k is without the row's axes, and is seen with 1 element along each */
  uint8_t made_by[BASE_PROGRAM_OPS]; /* the member that each op came of */
  uint8_t exact[BASE_PROGRAM_OPS];   /* of the first `judged` ops: what short.c knows of their digits */
  uint32_t judged;
} fuse_built;

/* Can the members run as one loop over the group's space? `group`: its number, whose members' values need no store
 * where no other node uses them. */
bool fuse_build(const fuse_state *f, const fuse_group *g, fuse_built *built);
/* Is axis `axis` of the group's space one of its row? */
static inline bool fuse_in_row(const fuse_group *g, int32_t axis) {
  return axis < g->rank - g->behind && axis >= g->rank - g->behind - g->row_axes;
}
/* `value`, which stands for elements of `dtype`, with the digits that these have. */
uint16_t fuse_rounded(const ir_graph *graph, fuse_built *built, uint16_t value, td_dtype dtype);
/* Would a few short rows at a time be run, since operands repeat along the axis outside of them? Loops that do not
 * reduce take that axis into their rows (kernels/loops/loops.h). */
bool fuse_runs_few_rows(const fuse_state *f, const fuse_group *g, const fuse_built *built);
/* What the group reads and writes. */
double fuse_bytes(const fuse_state *f, const fuse_group *g, const fuse_built *built);
/* Elements of a space, where sizes that are not known count FUSE_UNKNOWN. */
double fuse_elements(int32_t rank, const base_dim *dims);
/* Is the value another one seen through another order of axes? Loops turn such in tiles, which kernels of one operator
 * do not. */
bool fuse_is_transposed(const ir_graph *graph, ir_value v);
/* Why nothing can be made in front of the product, block by block; NULL: it can (chain.c). */
const char *fuse_why_no_front(const ir_graph *graph, const fuse_setting *setting, base_arena *scratch,
                              const ir_node_def *product);
/* Is the node among the group's members? */
bool fuse_is_member(const fuse_group *g, uint32_t node);
/* The name of the first of its own members. */
const char *fuse_name_of(const fuse_state *f, const fuse_group *g);
/* Is it excluded from fusion? Nodes that were joined have the origins of all. */
bool fuse_is_excluded(const fuse_state *f, const fuse_group *g);
/* Was the loop of these origins told to be in no chain? */
bool fuse_stays_loop(const fuse_setting *setting, const ir_origins *origins);
/* The members of both, in the order of the block, each once. False: too many. */
bool fuse_merge_members(const fuse_state *f, const fuse_group *a, const fuse_group *b, fuse_group *to);
/* Finds a place for the joint members. False: there is none. */
bool fuse_find_place(const fuse_state *f, fuse_group *g);
/* Why group b does not join group a. False. */
bool fuse_reject(const fuse_state *f, const fuse_group *a, const fuse_group *b, const char *why);
/* Moves groups of the block into those of all who read them, where computing them again is cheaper than a loop of
 * their own. `built` is scratch. */
td_status fuse_again(fuse_state *f, fuse_built *built);
/* One node alone is fused only where it would have no kernel. */
bool fuse_pays(const fuse_state *f, const fuse_group *g);
/* By their places. */
void fuse_sort(fuse_group **groups, uint32_t count);
/* Replaces the members of the block's groups by loops, where that pays. */
td_status fuse_emit(fuse_state *f);
#endif
