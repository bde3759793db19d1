/* alone.h -- is a node wrong, or only what it was given? */
#ifndef CLI_ALONE_H
#define CLI_ALONE_H
#include "arbiter.h"

/* A run with every node's result kept, `got`, and what eager makes of each node when it is given what that run had for
 * its operands: then nothing that happened before, such as a step of a quantisation that flipped, is held against it.
 */
typedef struct cli_alone {
  cli_feed feed;
  cli_trial got, expected;
  double rtol, atol;       /* that were asked for */
  cli_tolerance tolerance; /* of the result that is looked at */
  cli_arbiter arbiter;     /* of `expected` */
} cli_alone;

/* Runs both; `way` is that of `got`. Errors: those of runs, and TD_UNSUPPORTED where the model's nodes cannot run so.
 * Is closed also after a failure. */
td_status cli_alone_open(cli_alone *alone, cli_args *args, const cli_way *way, const cli_feed *feed,
                         const cli_tolerance *tolerance, td_error *err);
/* Is the node wrong that makes output `index` of `got`? `m`: how far it is from what eager makes of the same operands.
 */
bool cli_alone_parts(cli_alone *alone, size_t index, cli_metrics *m);
void cli_alone_close(cli_alone *alone);

/* Nodes that are run on their own when somebody asks for them first. Start zeroed but for the first four. */
typedef struct cli_nodes {
  cli_args *args;
  const cli_feed *feed;
  const cli_tolerance *tolerance;
  cli_way way;       /* of the run that they are of */
  bool asked, known; /* to be set: asked without being known says that there are none to be run */
  cli_alone alone;
} cli_nodes;

/* NULL: the model's nodes cannot be run so. */
cli_alone *cli_ask_nodes(cli_nodes *nodes);
/* Output `index` of `got`, a run of that way, is `m` away from what it should be: is that more than rounding
 * (`*rounding`)? `expected` is eager's. Where f64 does not explain what stands between the two, the nodes are asked;
 * noise only where they do not know. */
bool cli_output_parts(cli_nodes *nodes, cli_arbiter *outputs, const cli_metrics *m, const cli_trial *got,
                      const cli_trial *expected, size_t index, bool *rounding);
void cli_nodes_close(cli_nodes *nodes);
#endif
