/* launch.c -- `treadle launch` and other commands that are programs of their own, beside this one: what serves no model
 * stays out of it. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* Replaces this process. The program stands where this one does, else on the search path. */
td_status cli_become(const char *program, char **words, td_error *err) {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  char *slash = length > 0 ? memrchr(path, '/', (size_t)length) : NULL;
  if (slash && slash + 2 + strlen(program) < path + sizeof path) {
    strcpy(slash + 1, program);
    execv(path, words);
  }
  execvp(program, words);
  return base_fail(err, TD_NO_RESOURCE, NULL, -1, "%s cannot be run: %s; it is installed with treadle, beside it",
                   program, strerror(errno));
}

const cli_command cli_launch = {
    .name = "launch",
    .operands = "[OPTION]... [--] PROGRAM [ARGUMENT]...",
    .summary = "run instances of a program, each on its own cores and memory",
    .text = "`treadle launch --help` lists the options; they have the names of IPEX's launcher and PyTorch's run_cpu.",
    .examples =
        "treadle launch --throughput-mode treadle bench net.onnx\n"
        "treadle launch --ninstances 2 --dry-run python3 bench.py",
    .program = "treadle-launch",
};

const cli_command cli_serve = {
    .name = "serve",
    .operands = "[OPTION]... [NAME=]MODEL...",
    .summary = "serve models over HTTP and gRPC",
    .text = "`treadle serve --help` lists the options. By default only this machine can connect.",
    .program = "treadle-serve",
};

const cli_command cli_quantize = {
    .name = "quantize",
    .operands = "MODEL --data PATH [-o OUT.onnx] [OPTION]...",
    .summary = "write a model in 8 or 4 bits, or find what bf16 is to leave in f32",
    .text = "`treadle quantize --help` lists the options.",
    .program = "treadle-quantize",
};
