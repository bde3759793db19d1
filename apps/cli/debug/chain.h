/* chain.h -- from the user's node to the machine code that computes it, for people. */
#ifndef CLI_CHAIN_H
#define CLI_CHAIN_H
#include "cli/cli.h"

/* "node /add (Add): graph node td::fused of 3 nodes (/add, /mul, /relu), kernel fused_add_mul_relu_0, generated code
 * FILE.c:120", in the arena; NULL: out of memory. */
const char *cli_chain(base_arena *arena, const td_model *model, const td_session *session, uint32_t step);
/* Prints the line "  step N: CHAIN". */
void cli_print_chain(base_arena *arena, const td_model *model, const td_session *session, uint32_t step);
/* Prints the chain of the first steps, `most` at most, that run `kernel` (NULL: any) or stand for the node called
 * `node`, as it was called in the model (NULL: any). Figures that are not there are left out. */
void cli_print_chains(base_arena *arena, const td_model *model, const td_session *session, const char *kernel,
                      const char *node, uint32_t most);
#endif
