/* launch_options.c -- the options, by the names that IPEX's launcher and PyTorch's run_cpu have for them. '-' and '_'
 * in a name are the same, as are --name VALUE and --name=VALUE. */
#include <stdio.h>
#include <string.h>

#include "common/launch_options.h"
#include "sys/sys.h"

typedef struct row {
  const char *names;   /* the first is ours, the others are told the same */
  const char *value;   /* what stands for it in the help; NULL: a switch */
  const char *choices; /* NULL: any value */
  const char *help;    /* NULL: refused, with the reason of refusals[] */
} row;

static const row rows[LAUNCH_OPTIONS] = {
    [LAUNCH_INSTANCES] = {"ninstances instances", "N", NULL, "number of instances; default 1, or as many as fit"},
    [LAUNCH_CORES_EACH] =
        {"ncores-per-instance ncore-per-instance cores-per-instance", "N", NULL,
         "cores per instance; 0 (default): an even share; -1: an even share, and the remainder to the first ones"},
    [LAUNCH_INDEX] = {"instance-idx rank", "LIST", NULL, "start only these instances; -1: all"},
    [LAUNCH_CORES] = {"cores-list core-list cores", "LIST", NULL, "CPUs to use, 0-3,8-9; wins over the nodes"},
    [LAUNCH_NODES] = {"nodes-list node-id nodes", "LIST", NULL, "use the CPUs of these NUMA nodes; -1: all"},
    [LAUNCH_LOGICAL] = {"use-logical-cores use-logical-core", NULL, NULL, "also use hyper-threads"},
    [LAUNCH_EFFICIENT] = {"use-e-cores", NULL, NULL, "also use efficiency cores"},
    [LAUNCH_BIND] = {"bind-numa-node skip-cross-node-cores", NULL, NULL, "no instance has cores of two NUMA nodes"},
    [LAUNCH_SHARE] = {"share-cores", NULL, NULL, "allow more instances than cores: they share cores"},
    [LAUNCH_STRATEGY] = {"strategy", "NAME", "scatter close", "which cores to use when some are left; default scatter"},
    [LAUNCH_LATENCY] = {"latency-mode", NULL, NULL, "4 cores for each instance, as many as fit"},
    [LAUNCH_THROUGHPUT] = {"throughput-mode multi-instance", NULL, NULL, "one instance for each NUMA node"},
    [LAUNCH_NUMA] = {"numa", "HOW", "strict preferred none",
                     "memory only of the instance's nodes (default), preferably of them, or of any node"},
    [LAUNCH_MANAGER] =
        {"multi-task-manager", "NAME", "auto numactl taskset none",
         "numactl (auto): bind CPUs and memory; taskset: only CPUs; none: neither, OpenMP binds threads"},
    [LAUNCH_NO_NUMACTL] = {"disable-numactl", NULL, NULL, "as --multi-task-manager taskset"},
    [LAUNCH_NO_TASKSET] = {"disable-taskset", NULL, NULL, "with --disable-numactl: as --multi-task-manager none"},
    [LAUNCH_ALLOCATOR] = {"memory-allocator", "NAME", "auto default tcmalloc jemalloc mimalloc",
                          "allocator to preload; auto: tcmalloc, else jemalloc, else none"},
    [LAUNCH_TCMALLOC] = {"enable-tcmalloc", NULL, NULL, "as --memory-allocator tcmalloc"},
    [LAUNCH_JEMALLOC] = {"enable-jemalloc", NULL, NULL, "as --memory-allocator jemalloc"},
    [LAUNCH_LIBC_MALLOC] = {"use-default-allocator", NULL, NULL, "as --memory-allocator default"},
    [LAUNCH_OMP] = {"omp-runtime", "NAME", "auto default intel",
                    "OpenMP to preload; auto: libiomp5 where there is one"},
    [LAUNCH_NO_IOMP] = {"disable-iomp", NULL, NULL, "as --omp-runtime default"},
    [LAUNCH_BENCHMARK] = {"benchmark", NULL, NULL, "jemalloc keeps all memory: fast, and may run out"},
    [LAUNCH_LOGS] = {"log-dir log-path", "DIR", NULL, "both outputs of each instance to a file in this folder"},
    [LAUNCH_LOG_PREFIX] = {"log-file-prefix", "NAME", NULL, "prefix of these files; default run"},
    [LAUNCH_FAILURE] = {"on-failure", "WHAT", "stop continue restart",
                        "when an instance fails: stop the others (default), let them end, or start it again"},
    [LAUNCH_RESTARTS] = {"max-restarts", "N", NULL, "maximum restarts of one instance; default 10"},
    [LAUNCH_FILE] = {"options", "FILE", NULL,
                     "read options from FILE, one `name value` per line; '#' starts a comment"},
    [LAUNCH_MACHINE] = {"machine", "FILE|TEXT", NULL,
                        "plan for that machine: hwloc's XML or 'package:2 [numa] core:28 pu:2'; with --dry-run"},
    [LAUNCH_DRY] = {"dry-run", NULL, NULL, "print the plan and start nothing"},
    [LAUNCH_JSON] = {"json", NULL, NULL, "print the plan as JSON and start nothing"},
    [LAUNCH_MODULE] = {"m module", NULL, NULL, "the program is a Python module"},
    [LAUNCH_NO_PYTHON] = {"no-python", NULL, NULL, "run the program itself, even if it ends in .py"},
    [LAUNCH_HELP] = {"help h", NULL, NULL, "print this"},
    [LAUNCH_CLUSTER] = {"nnodes nprocs-per-node distributed ccl-worker-count logical-cores-for-ccl master-addr "
                        "master-port hostfile extra-mpi-params",
                        NULL, NULL, NULL},
    [LAUNCH_REWRITE] = {"auto-ipex dtype auto-ipex-verbose disable-ipex-graph-mode", NULL, NULL, NULL},
};

/* Is `name` the word, where '_' is as good as '-'? */
static bool same_name(base_str name, const char *word, size_t length) {
  if (name.length != length) return false;
  for (size_t i = 0; i < length; i++)
    if (name.at[i] != word[i] && !(name.at[i] == '_' && word[i] == '-')) return false;
  return true;
}

static bool listed(base_str name, const char *words) {
  for (const char *at = words; *at; at += strspn(at, " ")) {
    const size_t length = strcspn(at, " ");
    if (same_name(name, at, length)) return true;
    at += length;
  }
  return false;
}

static td_status refuse(launch_option option, base_str name, td_error *err) {
  return base_fail(err, TD_UNSUPPORTED, NULL, -1, "--%.*s: %s", (int)name.length, name.at,
                   option == LAUNCH_CLUSTER
                       ? "several machines belong to the cluster's own engine; docs/scaling.md has the same layout for "
                         "Slurm, Kubernetes and Ray"
                       : "programs are not rewritten here; `treadle compile` or the Python package compile the model");
}

static td_status set_option(base_str name, const char *value, launch_words *given, bool weak, launch_option *found,
                            td_error *err) {
  for (int i = 0; i < LAUNCH_OPTIONS; i++) {
    if (!listed(name, rows[i].names)) continue;
    *found = (launch_option)i;
    if (!rows[i].help) return refuse(*found, name, err);
    if (!rows[i].value && value)
      return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--%.*s takes no value", (int)name.length, name.at);
    if (value && rows[i].choices && !listed(base_str_of(value), rows[i].choices))
      return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--%.*s '%s': choose one of: %s", (int)name.length, name.at,
                       value, rows[i].choices);
    if (!weak || !given->given[i]) given->given[i] = rows[i].value ? value : "";
    return TD_OK;
  }
  return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "unknown option '%.*s'; see `treadle launch --help`",
                   (int)name.length, name.at);
}

static bool wants_value(base_str name) {
  for (int i = 0; i < LAUNCH_OPTIONS; i++)
    if (listed(name, rows[i].names)) return rows[i].value != NULL;
  return false;
}

/* ---- a file ---- */

static base_str trimmed(const char *at, const char *end) {
  while (at < end && strchr(" \t\r", *at)) at++;
  while (at < end && strchr(" \t\r", end[-1])) end--;
  return (base_str){at, (size_t)(end - at)};
}

static td_status take_line(base_str line, base_arena *arena, launch_words *given, td_error *err) {
  launch_option option;
  while (line.length && *line.at == '-') line.at++, line.length--;
  size_t length = 0;
  while (length < line.length && !strchr(" \t=", line.at[length])) length++;
  const base_str name = {line.at, length};
  base_str value = trimmed(line.at + length, line.at + line.length);
  if (value.length && *value.at == '=') value = trimmed(value.at + 1, value.at + value.length);
  const char *text = value.length ? base_arena_slice(arena, value.at, value.length) : NULL;
  if (value.length && !text) return base_no_memory(err, "an option");
  if (wants_value(name) && !text)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "a value is missing after '%.*s'", (int)name.length, name.at);
  return set_option(name, text, given, true, &option, err);
}

static td_status take_file(const char *path, base_arena *arena, launch_words *given, td_error *err) {
  sys_mapping file;
  td_status status = sys_file_map(path, &file, err);
  if (status != TD_OK) return status;
  const char *at = file.bytes, *end = at + file.size;
  for (int number = 1; at < end && status == TD_OK; number++) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) stop = end;
    const char *comment = memchr(at, '#', (size_t)(stop - at));
    const base_str line = trimmed(at, comment ? comment : stop);
    if (line.length) status = take_line(line, arena, given, err);
    if (status != TD_OK) base_error_name(err, status, "%s, line %d", path, number);
    at = stop + (stop < end);
  }
  sys_unmap(&file);
  return status;
}

/* ---- the line ---- */

td_status launch_parse(int count, char **words, base_arena *arena, launch_words *given, td_error *err) {
  int i = 0;
  *given = (launch_words){0};
  for (; i < count && words[i][0] == '-' && words[i][1]; i++) {
    const char *word = words[i], *start = word + 1 + (word[1] == '-'), *equals = strchr(start, '=');
    const base_str name = {start, equals ? (size_t)(equals - start) : strlen(start)};
    const char *value = equals ? equals + 1 : NULL;
    launch_option option;
    if (name.length == 0) { /* -- */
      i++;
      break;
    }
    if (!value && wants_value(name)) {
      if (i + 1 == count) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "a value is missing after '%s'", word);
      value = words[++i];
    }
    TRY(set_option(name, value, given, false, &option, err));
    if (option == LAUNCH_HELP) return TD_OK;
  }
  given->program = words + i;
  given->program_count = count - i;
  if (given->given[LAUNCH_FILE]) TRY(take_file(given->given[LAUNCH_FILE], arena, given, err));
  const bool plans = given->given[LAUNCH_DRY] || given->given[LAUNCH_JSON];
  if (given->given[LAUNCH_MACHINE] && !plans)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--machine is for --dry-run or --json: nothing runs elsewhere");
  if (given->program_count == 0 && !plans)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "a program to launch is missing; see `treadle launch --help`");
  return TD_OK;
}

/* ---- help ---- */

enum { INDENT = 29, LINE = 110 };

static void print_row(const row *r) {
  char left[64];
  int at = INDENT;
  const int first = (int)strcspn(r->names, " ");
  snprintf(left, sizeof left, "%s%.*s%s%s", first == 1 ? "-" : "--", first, r->names, r->value ? " " : "",
           r->value ? r->value : "");
  printf("  %-26s ", left);
  if ((int)strlen(left) > 26) printf("\n%*s", INDENT, "");
  for (const char *word = r->help; *word;) {
    const int length = (int)strcspn(word, " ");
    if (at > INDENT && at + 1 + length > LINE) {
      printf("\n%*s", INDENT, "");
      at = INDENT;
    }
    at += printf("%s%.*s", at > INDENT ? " " : "", length, word);
    word += length + (word[length] == ' ');
  }
  if (r->choices) printf(" (one of: %s)", r->choices);
  if (r->names[first]) printf(" [also:%s]", r->names + first);
  printf("\n");
}

void launch_print_help(void) {
  printf(
      "usage: treadle launch [OPTION]... [--] PROGRAM [ARGUMENT]...\n\n"
      "Runs instances of a program, each on cores and memory of its own.\n\n"
      "Cores are those that affinity and cpusets allow; a cgroup's quota bounds the threads. A program in Python\n"
      "(.py, or -m MODULE) is run by python3. The exit status is that of the first instance that failed, 128 + N\n"
      "for signal N.\n\noptions:\n");
  for (int i = 0; i < LAUNCH_OPTIONS; i++)
    if (rows[i].help) print_row(&rows[i]);
  printf(
      "\nexamples:\n"
      "  treadle launch --throughput-mode treadle serve net.tdl\n"
      "  treadle launch --ninstances 2 --dry-run python3 bench.py\n"
      "  treadle launch --latency-mode --machine 'package:2 [numa] core:28 pu:2' --json\n");
}
