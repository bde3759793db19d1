/* faults.c -- commands of `treadle-debug`, a program beside `treadle` that finds what is wrong with a model, or slow,
 * and shows what becomes of it: how they are called. */
#include "cli/faults.h"
#include "cli/collector.h"
#include "cli/perf.h"

#define OPTION_RTOL \
  { "rtol", "R", "differences up to atol + R times the expected magnitude are rounding; default 1e-3", NULL, false }
#define OPTION_ATOL \
  { "atol", "A", "see --rtol; default 1e-4", NULL, false }
#define OPTION_KERNELS                                                                       \
  {                                                                                          \
    "disable-kernels", "NAMES",                                                              \
        "kernels whose steps run plain loops, separated by commas; `treadle bench --layers`" \
        " names them",                                                                       \
        NULL, false                                                                          \
  }
/* What every command that compares ways to run one model lets the caller say of the model and of the ways. */
#define OPTIONS_TRIAL                                                                                                  \
  OPTION_RTOL, OPTION_ATOL, CLI_OPTION_INPUT, CLI_OPTION_SHAPE, CLI_OPTION_METHOD, CLI_OPTION_BATCH,                   \
      CLI_OPTION_PREPROCESS, CLI_OPTION_PASSES, OPTION_KERNELS, CLI_OPTION_ISA, CLI_OPTION_MATH, CLI_OPTION_PRECISION, \
      CLI_OPTION_CC, CLI_OPTION_STRICT, CLI_OPTION_CC_LIMIT, CLI_OPTION_TUNED, CLI_OPTION_THREADS, CLI_OPTION_WEIGHTS, \
      CLI_OPTION_SEED, CLI_OPTION_INJECT

static const cli_option compare_options[] = {
    {"backends", "A,B",
     "A is the reference, B is compared with it; default eager,native; with two models native,native", NULL, false},
    {"expect", "DIR", "the reference is the recorded outputs DIR/NAME.npy, as `treadle run --output DIR` writes them",
     NULL, false},
    {"time-limit", "S", "timeout in seconds; default: none", NULL, false},
    OPTIONS_TRIAL,
    CLI_OPTION_SPECIALISE,
    {"nodes", NULL, "show every node, even if the outputs agree", NULL, false},
    {"check-nan", NULL, "find the first node of B whose result has a NaN or an infinity", NULL, false},
    CLI_OPTION_JSON,
};

const cli_command cli_compare = {
    CLI_COMPARE,
    .text =
        "Runs MODEL on two backends with the same inputs and prints, per output, the largest difference\n"
        "(absolute, relative, in ULP) and the cosine. If outputs differ, every node's result is compared and the\n"
        "first differing node is named. If the fault disappears when all results are kept (it needs nodes to be\n"
        "fused), nodes are kept one at a time. A crash or a run that does not end is attributed to its node.\n"
        "\n"
        "A difference beyond the tolerance counts as rounding if eager in f64 differs from eager by about as\n"
        "much, and if every node, given the operands of that run, computes what eager computes from them: then\n"
        "single steps of a dynamic quantisation have flipped.\n"
        "\n"
        "With two models, files of any format, outputs are compared in order; inputs are those of the first.",
    .examples =
        "treadle compare net.onnx\n"
        "treadle compare net.onnx --backends aot_eager,native --input x.npy\n"
        "treadle compare net.onnx --nodes --rtol 1e-5\n"
        "treadle compare net.onnx net.pt --input x.npy\n"
        "treadle compare net.onnx --input x.npy --expect recorded\n"
        "treadle compare net.onnx --check-nan",
    .options = compare_options,
    .option_count = sizeof compare_options / sizeof *compare_options,
    .min_operands = 1,
    .max_operands = 2,
};

static const cli_option bisect_options[] = {
    CLI_OPTION_BACKEND,    OPTIONS_TRIAL,
    CLI_OPTION_SPECIALISE, {"time-limit", "S", "timeout in seconds; default: 20 times eager's time + 10", NULL, false},
    CLI_OPTION_JSON,
};

const cli_command cli_bisect = {
    CLI_BISECT,
    .text =
        "Runs MODEL repeatedly with some graph passes, then some kernels disabled, and bisects to the one without\n"
        "which the outputs agree with eager. If the outputs agree from the start, there is nothing to find. Ends\n"
        "with a command that shows the answer.",
    .examples =
        "treadle bisect net.onnx\n"
        "treadle bisect net.onnx --input x.npy --rtol 1e-4",
    .options = bisect_options,
    .option_count = sizeof bisect_options / sizeof *bisect_options,
    .min_operands = 1,
    .max_operands = 1,
};

static const cli_option minify_options[] = {
    {"accuracy", NULL, "the model must give wrong outputs", NULL, false},
    {"crash", NULL, "the model must fail to load or run, crash or time out", NULL, false},
    {"cmd", "SCRIPT",
     "a shell command that decides: the graph's path is $1, the folder of its inputs $2; failing is the exit status "
     "that it has for the whole model",
     NULL, false},
    {"output", "DIR", "where the result goes; default minified", NULL, false},
    {"time-limit", "S", "timeout of a candidate in seconds; default: 10 times eager's time + 3 + 1 per 50 nodes", NULL,
     false},
    CLI_OPTION_BACKEND,
    OPTIONS_TRIAL,
    CLI_OPTION_JSON,
};

const cli_command cli_minify = {
    CLI_MINIFY,
    .text =
        "Runs parts of MODEL's graph, each in its own process, and keeps those that fail as MODEL does: same\n"
        "error, signal or exit status, a timeout, or outputs that differ from eager by more than rounding. A\n"
        "value that a part reads and does not compute is the one it has in MODEL. Then constants become inputs,\n"
        "sizes shrink and types get simpler, as long as the failure stays.\n"
        "\n"
        "The result is a folder with the graph as text, its inputs, a command that shows the failure, and a\n"
        "README.",
    .examples =
        "treadle minify net.onnx\n"
        "treadle minify net.onnx --input x.npy --accuracy --rtol 1e-3 --output small\n"
        "treadle minify net.onnx --cmd 'treadle run \"$1\" --backend interp'",
    .options = minify_options,
    .option_count = sizeof minify_options / sizeof *minify_options,
    .min_operands = 1,
    .max_operands = 1,
};

static const cli_option replay_options[] = {
    CLI_OPTION_INPUT, CLI_OPTION_SHAPE,
    CLI_OPTION_BATCH, {"output", "DIR", "write each output there, as NAME.npy", NULL, false},
    CLI_OPTION_CC,    CLI_OPTION_THREADS,
    CLI_OPTION_SEED,
};

const cli_command cli_replay = {
    CLI_REPLAY,
    .text =
        "Runs DIR/graph.tdir with the options of the command that wrote it. The loops are those of DIR/loops.txt.\n"
        "If DIR has a generated.N.c for them, that file is compiled instead of generated code: it is your own\n"
        "code, and trusted. A crash in it is attributed to its node.",
    .examples =
        "treadle run net.onnx --debug-dir seen\n"
        "treadle replay seen",
    .options = replay_options,
    .option_count = sizeof replay_options / sizeof *replay_options,
    .min_operands = 1,
    .max_operands = 1,
};

static const cli_option repro_options[] = {
    {"output", "DIR", "folder to write; default repro", NULL, false},
    {"drop-weights", NULL, "replace the model's weights by zeros", NULL, false},
    CLI_OPTION_INPUT,
    CLI_OPTION_SHAPE,
    CLI_OPTION_METHOD,
    CLI_OPTION_BATCH,
    CLI_OPTION_PREPROCESS,
    CLI_OPTIONS_ENGINE,
    CLI_OPTION_THREADS,
    CLI_OPTION_WEIGHTS,
    CLI_OPTION_SEED,
    CLI_OPTION_INJECT,
    CLI_OPTION_JSON,
};

const cli_command cli_repro = {
    CLI_REPRO,
    .text =
        "Writes a folder with the graph as text, weights, inputs, plan, options, version and CPU, and a script\n"
        "that runs it.",
    .examples =
        "treadle repro net.onnx --input x.npy\n"
        "treadle repro net.onnx --drop-weights --output for-treadle",
    .options = repro_options,
    .option_count = sizeof repro_options / sizeof *repro_options,
    .min_operands = 1,
    .max_operands = 1,
};

static const cli_option check_options[] = {
    {"skips", "FILE", "cases that are known to fail: lines `name-or-glob | reason | owner`", NULL, false},
    {"only", "GLOB", "check only the cases whose name matches", NULL, false},
    CLI_OPTION_BACKEND,
    CLI_OPTION_PASSES,
    CLI_OPTION_ISA,
    CLI_OPTION_MATH,
    CLI_OPTION_PRECISION,
    CLI_OPTION_KEEP_F32,
    CLI_OPTION_CC,
    CLI_OPTION_STRICT,
    CLI_OPTION_CC_LIMIT,
    CLI_OPTION_TRUSTED,
    {"rtol", "R", "relative tolerance, instead of the case's own", NULL, false},
    {"atol", "A", "absolute tolerance, instead of the case's own", NULL, false},
    {"time-limit", "SECONDS", "fail a case that takes longer; default 300", NULL, false},
    {"verbose", NULL, "print times, why skipped cases fail, and skips that match no case", NULL, false},
    CLI_OPTION_JSON,
};

const cli_command cli_check = {
    CLI_CHECK,
    .text =
        "A case is a folder with model.onnx and test_data_set_*/input_I.pb, output_I.pb (ONNX's own tests), or with\n"
        "case.json and .npy files. Folders are searched recursively. An output passes if its type and shape are\n"
        "the recorded ones and every element is within ATOL + RTOL * |expected|; default RTOL 1e-3 and ATOL 1e-7,\n"
        "or as data.json or case.json say. Integers of a case.json case must be equal.\n"
        "\n"
        "Each case runs in a process of its own: a crash or a hang fails that case only. A case of the skip list\n"
        "runs too, and fails if it passes. The exit status is 0 when nothing failed, else 1.",
    .examples =
        "treadle check tests/corpus\n"
        "treadle check --backend eager --skips skips.txt onnx/backend/test/data/node\n"
        "treadle check --only 'test_conv*' --verbose onnx/backend/test/data/node",
    .options = check_options,
    .option_count = sizeof check_options / sizeof *check_options,
    .min_operands = 1,
    .max_operands = UINT32_MAX,
};

static const cli_option profile_options[] = {
    CLI_OPTION_THREADS,
    CLI_OPTION_INTEROP,
    {"group-by", "WHAT",
     "what a row is; default node. With module and origin, a kernel's time is divided among its nodes",
     "node op kernel class module origin", false},
    {"depth", "N", "with --group-by module: group by the first N parts of module paths", NULL, false},
    {"columns", "LIST",
     "of the table, separated by commas: self, total, share, calls, mean, flop, bytes, gflops, gbs, limit (least "
     "microseconds that the work can take), reach (percent of the limit), busy (threads computing), memory (arena "
     "bytes in use), steps, op, kernel, or all",
     NULL, false},
    {"sort", "KEY",
     "time (default), mean, calls, flops, bytes, limit (time lost against it), memory, order (plan order)",
     "time mean calls flops bytes limit memory order", false},
    {"limit", "N", "maximum rows of the table; default 40, 0: all", NULL, false},
    {"compare-backend", "NAME", "also profile this backend, and show both by class of work: where fusion saves time",
     CLI_BACKENDS, false},
    {"trace", "FILE", "write a timeline of every thread, for ui.perfetto.dev or chrome://tracing", NULL, false},
    {"html", "FILE", "write one self-contained page: timeline, roofline, table", NULL, false},
    {"csv", "FILE", "write all rows with every figure", NULL, false},
    {"stacks", "FILE", "write folded stacks by module, for flame graphs", NULL, false},
    {"level", "LEVEL",
     "hardware counters, too: top-down analysis (tma; tma1, tma2, tma3: its first levels) or instructions per cycle "
     "(ipc), as far as the machine has them; "
     "default time",
     "time ipc tma tma1 tma2 tma3", false},
    {"memory", NULL, "also show allocations, page faults, the arena over time, and the steps at its peak", NULL, false},
    {"min-time", "SECONDS", "seconds to record; default 1", NULL, false},
    {"runs", "N", "record N runs instead", NULL, false},
    {"schedule", "W,U,A[,R[,S]]",
     "skip S runs, then R cycles of W runs not watched, U discarded (warm-up) and A recorded; default: all are "
     "recorded",
     NULL, false},
    {"records", "N", "records kept per thread for traces; default 65536", NULL, false},
    CLI_OPTION_ITT,
    CLI_OPTION_PERF,
    {"no-limits", NULL, "do not measure the roofline if it is not known yet", NULL, false},
    CLI_OPTION_BATCH,
    CLI_OPTION_SHAPE,
    CLI_OPTION_METHOD,
    CLI_OPTION_SPECIALISE,
    CLI_OPTION_NODE_COPIES,
    CLI_OPTION_INPUT,
    CLI_OPTIONS_ENGINE,
    CLI_OPTION_TRUSTED,
    CLI_OPTION_TUNE,
    CLI_OPTION_TUNED,
    CLI_OPTION_WEIGHTS,
    CLI_OPTION_PREPROCESS,
    CLI_OPTION_SEED,
    CLI_OPTION_JSON,
};

const cli_command cli_profile = {
    CLI_PROFILE,
    .text =
        "MODEL is a file or builtin:NAME. It is loaded, warmed up, and run for --min-time seconds while every\n"
        "step on every thread is recorded. The table has a row per node, operator, kernel or module: microseconds\n"
        "per run, share of the run, executions, rates, percent of the measured limit (`treadle help roofline`),\n"
        "and threads computing. Time outside of steps has its own row, so that the rows add up to the run.",
    .examples =
        "treadle profile net.onnx --threads 1\n"
        "treadle profile net.onnx --group-by op --columns all\n"
        "treadle profile net.onnx --group-by module --depth 3\n"
        "treadle profile net.onnx --sort limit --limit 10\n"
        "treadle profile net.onnx --compare-backend aot_eager\n"
        "treadle profile builtin:mobilenet_v2 --trace trace.json --html profile.html",
    .options = profile_options,
    .option_count = sizeof profile_options / sizeof *profile_options,
    .min_operands = 1,
    .max_operands = 1,
};

static const cli_option bench_options[] = {
    CLI_OPTION_THREADS,
    CLI_OPTION_INTEROP,
    CLI_OPTION_BATCH,
    {"streams", "N", "split the batch over N streams, each with its own threads and samples", NULL, false},
    CLI_OPTION_SHAPE,
    CLI_OPTION_METHOD,
    CLI_OPTION_SPECIALISE,
    CLI_OPTION_NODE_COPIES,
    CLI_OPTION_INPUT,
    {"min-time", "SECONDS", "minimum seconds to time; default 1", NULL, false},
    {"sweep", "SETTING", "vary one setting: a table, a plot, and the best value for latency and for throughput",
     "threads instances batch streams", false},
    {"instances", "N", "measure N concurrent processes, and their loss against one alone", NULL, false},
    {"values", "LIST", "values of the swept setting, such as 1-4,8", NULL, false},
    {"svg", "FILE", "draw the sweep", NULL, false},
    {"layers", NULL, "also time each step: shortest time, rate, percent of its limit", NULL, false},
    {"overhead", NULL, "also time runs with a profile being recorded, interleaved with runs without", NULL, false},
    {"suite", "NAME", "instead of a model: layers of many models, each against its limit",
     "all gemm conv depthwise attention norm reduce elementwise move recurrent fourier", false},
    {"shapes", "FILE", "read the layers of the suite from FILE; format: bench/shapes/", NULL, false},
    {"expect", "FILE", "fail if a layer falls below 80 % of its share of the limit in FILE", NULL, false},
    {"record", "FILE", "write the shares of the limit to FILE", NULL, false},
    CLI_OPTIONS_ENGINE,
    CLI_OPTION_TRUSTED,
    CLI_OPTION_TUNE,
    CLI_OPTION_TIERED,
    CLI_OPTION_TUNED,
    CLI_OPTION_WEIGHTS,
    CLI_OPTION_PREPROCESS,
    CLI_OPTION_SEED,
    CLI_OPTION_DEBUG_DIR,
    CLI_OPTION_PERF,
    CLI_OPTION_JSON,
};

const cli_command cli_bench = {
    CLI_BENCH,
    .text =
        "MODEL is a file or builtin:NAME. It is loaded, compiled, run once, warmed up, and then timed run by run\n"
        "for --min-time seconds, longer if that gives few runs.\n"
        "\n"
        "The limit is the least time the machine can take, by the measured roofline (`treadle help roofline`):\n"
        "for each step, the longer of its arithmetic at peak rate and its bytes at the bandwidth of the memory\n"
        "level they are in. Algorithms that save arithmetic, such as Winograd's, can beat it.\n"
        "\n"
        "--suite measures layers of the benchmark models one at a time, for 0.05 seconds each or --min-time.\n"
        "`builtin:layer:` followed by a line of the suite is a model of that layer.",
    .examples =
        "treadle bench net.onnx --threads 1\n"
        "treadle bench net.onnx --threads 1 --layers\n"
        "treadle bench builtin:efficientnet_lite0 --min-time 5 --json\n"
        "treadle bench net.onnx --batch 8\n"
        "treadle bench net.onnx --batch 8 --specialise batch=1,8\n"
        "treadle bench net.onnx --sweep threads --svg threads.svg\n"
        "treadle bench net.onnx --batch 8 --sweep streams\n"
        "treadle bench net.onnx --instances 2\n"
        "treadle bench --suite gemm --threads 1\n"
        "treadle bench 'builtin:layer:conv 1x64x56x56 out=64 kernel=3 act=relu'",
    .options = bench_options,
    .option_count = sizeof bench_options / sizeof *bench_options,
    .max_operands = 1,
};

static const cli_option tune_options[] = {
    CLI_OPTION_ISA,
    {"turns", "N", "interleaved measurements of each candidate on each layer, 1.5 ms or a run each; default 12", NULL,
     false},
    CLI_OPTION_JSON};

const cli_command cli_tune = {
    CLI_TUNE,
    .text =
        "Kernels choose among forms that give the same bits by a few parameters, whose values a table has for\n"
        "families of CPUs. This command measures other values on some layers, on one thread or two as the\n"
        "parameter needs, in about twenty seconds, and keeps the best in the cache folder\n"
        "($XDG_CACHE_HOME/treadle or ~/.cache/treadle). --tuned makes other commands use them.\n"
        "\n"
        "With NUMBERs only these parameters are measured; kept values of others stay.",
    .examples =
        "treadle tune\n"
        "treadle tune b_lines tall_rows --turns 50\n"
        "treadle bench resnet50.onnx --tuned",
    .options = tune_options,
    .option_count = sizeof tune_options / sizeof *tune_options,
    .max_operands = 32,
};

static const cli_option roofline_options[] = {
    {"threads", "N", "maximum number of threads; default: all that are available", NULL, false},
    {"cached", NULL, "print the kept figures, if there are any", NULL, false},
    CLI_OPTION_JSON,
};

const cli_command cli_roofline = {
    CLI_ROOFLINE,
    .text =
        "Measures peak arithmetic for each level of instruction sets, and the bandwidth of caches and memory, on\n"
        "one thread and on more, in about two seconds. The figures are limits: run it on an idle machine. They\n"
        "are kept in the cache folder ($XDG_CACHE_HOME/treadle or ~/.cache/treadle) for `treadle bench`, which\n"
        "measures again if it finds one too small. A copied byte counts twice, once read and once written.",
    .examples =
        "treadle roofline\n"
        "treadle roofline --threads 1 --json",
    .options = roofline_options,
    .option_count = sizeof roofline_options / sizeof *roofline_options,
};

static const cli_option compare_profiles_options[] = {CLI_OPTION_JSON};

const cli_command cli_compare_profiles = {
    CLI_COMPARE_PROFILES,
    .text =
        "BEFORE and AFTER are files that `treadle profile MODEL --json` wrote, with the same --group-by. A row\n"
        "changed if its mean time moved by more than three standard errors and 2 %, and its shortest time moved with\n"
        "it; rows within the noise are counted, not shown.",
    .examples =
        "treadle profile net.onnx --json > before.json\n"
        "treadle profile net.onnx --math fast --json > after.json\n"
        "treadle compare-profiles before.json after.json",
    .options = compare_profiles_options,
    .option_count = sizeof compare_profiles_options / sizeof *compare_profiles_options,
    .min_operands = 2,
    .max_operands = 2,
};

static const cli_option inspect_options[] = {
    {"stage", "STAGE",
     "what to show: the imported graph, the graph after the passes, its fused loops, or the plan; default passes",
     "imported passes loops plan", false},
    {"why", NULL, "with --stage loops: explain each fusion decision, and why unfused nodes were left alone", NULL,
     false},
    {"format", "FORMAT", "output format; default text; html shows the plan's memory over its steps",
     "text dot json html", false},
    {"save", "FILE",
     "write the graph of stage imported or passes as FILE.tdir, which can be edited and run; of stage imported also as "
     "FILE.onnx, if ONNX has its operators",
     NULL, false},
    CLI_OPTIONS_ENGINE,
    CLI_OPTION_TRUSTED,
    CLI_OPTION_TUNE,
    CLI_OPTION_WEIGHTS,
    CLI_OPTION_SEED,
    CLI_OPTION_SHAPE,
    CLI_OPTION_METHOD,
    CLI_OPTION_SPECIALISE,
    {"json", NULL, "the same as --format json", NULL, false},
};

const cli_command cli_inspect = {
    CLI_INSPECT,
    .text =
        "MODEL is a file or builtin:NAME. The text begins with the inputs and outputs; after the passes, # lines\n"
        "say what each of them did. Weights that are in no file, such as packed ones, are printed as their first\n"
        "elements. If operators are not supported, the nodes of the file are printed and those are marked.",
    .examples =
        "treadle inspect net.onnx --stage imported\n"
        "treadle inspect net.onnx --stage loops --why\n"
        "treadle inspect net.onnx --stage plan --format html > memory.html\n"
        "treadle inspect net.onnx --stage imported --save net.tdir\n"
        "treadle inspect net.onnx --stage passes --format dot | dot -Tsvg > net.svg",
    .options = inspect_options,
    .option_count = sizeof inspect_options / sizeof *inspect_options,
    .min_operands = 1,
    .max_operands = 1,
};
