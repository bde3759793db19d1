/* cli.h -- what the sub-commands of `treadle` share: the table that describes them, their parsed arguments, printing.
 *
 * One row per sub-command holds its operands, options, help and examples; parsing, --help, the man page and the bash
 * completion are all made from it. A sub-command is a function that takes parsed arguments and returns a td_status;
 * that status is the exit status, and the error is printed once, by main. */
#ifndef CLI_CLI_H
#define CLI_CLI_H
#include <stdio.h>

#include "common/json.h"
#include "common/levels.h"
#include "common/print.h"

typedef struct cli_option {
  const char *name;  /* without its dashes: two, or one in front of a single letter */
  const char *value; /* what stands for its value in the help; NULL: a switch. "FILE" or "DIR" in it completes paths */
  const char *help;  /* a phrase without a full stop */
  const char *choices; /* the values there are, separated by blanks; NULL: anything */
  bool repeats;
} cli_option;

typedef struct cli_command cli_command;

typedef struct cli_given {
  const cli_option *option;
  const char *value; /* NULL for a switch */
} cli_given;

typedef struct cli_args {
  const cli_command *command;
  base_arena *arena;   /* lives as long as the command runs */
  char **words;        /* as they were given, from the command's name on */
  const char *subject; /* what errors are about, usually the model; NULL: the command itself */
  const char **operands;
  uint32_t operand_count;
  cli_given *given;
  uint32_t given_count;
} cli_args;

/* What a command does. */
typedef td_status cli_work(cli_args *args, td_error *err);

struct cli_command {
  const char *name;
  const char *operands; /* as in the usage line, "MODEL" */
  const char *summary;  /* a phrase */
  const char *text;     /* paragraphs separated by blank lines, or NULL */
  const char *examples; /* lines "COMMAND" and "# what it does", or NULL; NULL with a program: that has the whole row */
  const cli_option *options;
  uint32_t option_count;
  uint32_t min_operands, max_operands;
  cli_work *run;
  const char *program; /* that runs instead, with all words as they are; NULL: this one */
};

/* The row of every sub-command, in the order of the help, ending with NULL. */
extern const cli_command *const cli_commands[];
extern const cli_command cli_run, cli_check, cli_bench, cli_profile, cli_compare_profiles, cli_compare, cli_bisect,
    cli_minify, cli_replay, cli_repro, cli_roofline, cli_tune, cli_compile, cli_serve, cli_inspect, cli_info,
    cli_launch, cli_quantize, cli_version, cli_help;
/* Parses `words`, what follows the command's name, runs it and prints its error; the exit status. */
int cli_execute(const cli_command *command, cli_work *run, int count, char **words);
/* Runs the program of that name, with `words` from its name on, instead of this one. Returns where that fails. */
td_status cli_become(const char *program, char **words, td_error *err);
/* Is `name` more like `word` than *nearest is (NULL: like enough to be meant)? Then it is *nearest. */
bool cli_nearer(base_str word, const char *name, const char **nearest);
const char *cli_dashes(const cli_option *option);      /* "--" or "-" */
const cli_command *cli_find_command(const char *name); /* NULL: there is none */

/* Options that several commands take. */
#define CLI_BACKENDS "eager aot_eager interp native"
#define CLI_OPTION_BACKEND                                                                                           \
  {                                                                                                                  \
    "backend", "NAME",                                                                                               \
        "eager: plain-loop references; aot_eager: also the graph passes; interp: kernels, fused loops interpreted; " \
        "native (default): kernels, fused loops compiled",                                                           \
        CLI_BACKENDS, false                                                                                          \
  }
#define CLI_OPTION_PASSES                                                                                            \
  {                                                                                                                  \
    "disable-passes", "NAMES", "graph passes to disable, comma-separated; `treadle info --passes` lists them", NULL, \
        false                                                                                                        \
  }
#define CLI_OPTION_ISA \
  { "isa", "NAME", "widest instruction set for kernels; default: the widest that the CPU has", app_levels + 1, false }
#define CLI_OPTION_MATH                                                                                                \
  {                                                                                                                    \
    "math", "NAME",                                                                                                    \
        "rounding: exact allows plain sums only; default also Winograd convolutions where their error is small; fast " \
        "also Strassen products",                                                                                      \
        "exact default fast", false                                                                                    \
  }
#define CLI_OPTION_PRECISION                                                                                        \
  {                                                                                                                 \
    "precision", "NAME",                                                                                            \
        "type of weights of products: bf16 or f16 store them in 16 bits; int8 also quantises the other operand of " \
        "weights of 4 and 8 bits",                                                                                  \
        "f32 bf16 f16 int8", false                                                                                  \
  }
#define CLI_OPTION_KEEP_F32 \
  { "keep-f32", "NODES", "nodes, separated by commas, that --precision leaves as they are", NULL, false }
#define CLI_OPTION_STATE                                                                                            \
  {                                                                                                                 \
    "state", "PAIRS",                                                                                               \
        "inputs that the session keeps from run to run, and the outputs that renew them: 'h0=hn,c0=cn', "           \
        "'past.*=present.*', or auto for those called as decoders' caches are; then their sizes, 'auto past=1024'", \
        NULL, false                                                                                                 \
  }
#define CLI_OPTION_CC                                                                                               \
  {                                                                                                                 \
    "cc", "PATH", "C compiler for fused loops; none: interpret them; default: the first of cc, gcc, clang in PATH", \
        NULL, false                                                                                                 \
  }
#define CLI_OPTION_TRUSTED                                                                                         \
  {                                                                                                                \
    "trusted", NULL, "load the machine code in a .tdl file: only if you trust it as you trust this program", NULL, \
        false                                                                                                      \
  }
#define CLI_OPTION_TUNE                                                                                             \
  {                                                                                                                 \
    "tune", NULL, "measure the model with and without its fused loops, use the faster form, and remember it", NULL, \
        false                                                                                                       \
  }
#define CLI_OPTION_SPECIALISE                                                                                          \
  {                                                                                                                    \
    "specialise", "SIZES",                                                                                             \
        "compile faster variants for these sizes of open dimensions, 'batch=1,8 seq=128' for each combination; other " \
        "sizes use the general plan",                                                                                  \
        NULL, true                                                                                                     \
  }
#define CLI_OPTION_NODE_COPIES                                                                                         \
  {                                                                                                                    \
    "node-copies", "MACHINE",                                                                                          \
        "copy the weights to each memory node, whose threads then read their own copy: of this machine (here) or, to " \
        "try it, of one that is described as in launch --machine",                                                     \
        NULL, false                                                                                                    \
  }
#define CLI_OPTION_TIERED \
  { "tiered", NULL, "start with interpreted loops; switch to machine code when it is compiled", NULL, false }
#define CLI_OPTION_STRICT                                                                                         \
  {                                                                                                               \
    "strict", NULL, "a compiler failure is an error; default: the loops it was to compile are interpreted", NULL, \
        false                                                                                                     \
  }
#define CLI_OPTION_CC_LIMIT \
  { "cc-limit-ms", "N", "timeout of one compiler run, in ms; default 60000", NULL, false }
/* How a model is compiled, and its fused loops are. */
#define CLI_OPTIONS_ENGINE                                                                                           \
  CLI_OPTION_BACKEND, CLI_OPTION_PASSES, CLI_OPTION_ISA, CLI_OPTION_MATH, CLI_OPTION_PRECISION, CLI_OPTION_KEEP_F32, \
      CLI_OPTION_STATE, CLI_OPTION_CC, CLI_OPTION_STRICT, CLI_OPTION_CC_LIMIT
#define CLI_OPTION_TUNED \
  { "tuned", NULL, "use the kernel parameters that `treadle tune` found fastest on this machine", NULL, false }
#define CLI_OPTION_THREADS \
  { "threads", "N", "maximum number of compute threads; eager and aot_eager use one", NULL, false }
#define CLI_OPTION_INTEROP                                                                                           \
  {                                                                                                                  \
    "interop-threads", "N",                                                                                          \
        "maximum number of threads for forked tasks of a TorchScript model; default: the number of compute threads", \
        NULL, false                                                                                                  \
  }
#define CLI_OPTION_WEIGHTS \
  { "weights", "FILE", "state_dict of a builtin: model (.pth, .safetensors)", NULL, false }
#define CLI_OPTION_PREPROCESS                                                                                       \
  {                                                                                                                 \
    "preprocess", "NAME",                                                                                           \
        "how an image is converted: raw is the whole image, 0 to 1 or bytes; default: the model's training preset", \
        "imagenet efficientnet_lite raw", false                                                                     \
  }
#define CLI_OPTION_SEED \
  { "seed", "N", "seed for random inputs and weights; default 0", NULL, false }
#define CLI_OPTION_INPUT \
  { "input", "[NAME=]FILE", "an input, as for `treadle run`; others are random", NULL, true }
#define CLI_OPTION_BATCH \
  { "batch", "N", "size of an open first dimension", NULL, false }
#define CLI_OPTION_SHAPE                                                                                      \
  {                                                                                                           \
    "shape", "NAME=DIMS",                                                                                     \
        "dimensions of an input, 1x3x224x224, or the size of a named dimension in all inputs, seq=24; for a " \
        "TorchScript model also its type, 1x12:i64, and open dimensions, Nx3x224x224",                        \
        NULL, true                                                                                            \
  }
#define CLI_OPTION_METHOD \
  { "method", "NAME", "method of a TorchScript module to run; default forward", NULL, false }
#define CLI_OPTION_DEBUG_DIR                                                                                         \
  {                                                                                                                  \
    "debug-dir", "DIR", "write graphs, loops, C files, plan and times to DIR; `treadle replay DIR` runs them", NULL, \
        false                                                                                                        \
  }
#define CLI_OPTION_INJECT                                                                                         \
  {                                                                                                               \
    "inject", "OP:MODE[@NODE]",                                                                                   \
        "for tests: make the kernels of an operator, or what pass=NAME makes, fail; MODE is wrong, slight, nan, " \
        "crash, hang, compile or type",                                                                           \
        NULL, false                                                                                               \
  }
#define CLI_OPTION_JSON \
  { "json", NULL, "print JSON", NULL, false }

/* ---- arguments (args.c) ---- */

/* Parses what follows the sub-command's name. `*help` is set when --help was among it; the rest is then not checked. */
td_status cli_parse(const cli_command *command, int count, char **words, base_arena *arena, cli_args *args, bool *help,
                    td_error *err);
bool cli_flag(const cli_args *args, const char *option);
/* The value of an option, or NULL. */
const char *cli_value(const cli_args *args, const char *option);
/* The next value of an option that repeats; NULL after the last. Start with *cursor = 0. */
const char *cli_next(const cli_args *args, const char *option, uint32_t *cursor);
/* Prints the options that were given, but for those named in `without`, which ends with NULL, for the shell. */
void cli_print_given(const cli_args *args, const char *const *without, FILE *to);
/* A number within [low, high]; *value is left as it is when the option is absent. */
td_status cli_int(const cli_args *args, const char *option, int64_t low, int64_t high, int64_t *value, td_error *err);
td_status cli_real(const cli_args *args, const char *option, double low, double high, double *value, td_error *err);

/* ---- help ---- */
void cli_print_usage(FILE *to);
void cli_print_help(const cli_command *command, FILE *to);
/* The manual page, the completion, and the help of commands whose rows `treadle` has in brief: treadle-debug's. */
td_status cli_help_rest(cli_args *args, td_error *err);
#define CLI_DEBUG_PROGRAM "treadle-debug"
#endif
