/* config.c -- the options of the command line and the keys of config.properties: one table of both. The file is read
 * first, then the command line; both are TorchServe's where it has them. A key that has no meaning here is named once,
 * a value that cannot be read is an error. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

const char serve_usage[] =
    "usage: treadle serve [OPTION...] [NAME=]MODEL...\n\n"
    "Serves models: KServe's V2 protocol (/v2/models/NAME/infer, JSON and binary tensors) and TorchServe's inference,\n"
    "management and metrics routes. A model is any file that `treadle run` takes, or a .mar archive with one of\n"
    "TorchServe's built-in handlers; its name is that of its file without the ending. TorchServe's command line works "
    "as well:\n\n"
    "  treadle serve model.onnx\n"
    "  treadle serve --start --foreground --model-store store --models resnet18=resnet18.mar --ts-config "
    "config.properties\n"
    "  treadle serve --stop\n\n"
    "  --port N               port on 127.0.0.1; default 8080; 0: a free one, which is printed\n"
    "  --workers N            compute threads, shared by all models; default: usable CPUs\n"
    "  --io-threads N         threads that read requests and send replies; default: one for each 16 workers\n"
    "  --node-copies here     copy weights to each NUMA node, where threads read those of their own\n"
    "  --queue N              maximum queued requests per model; others get 503; default 100\n"
    "  --timeout S            seconds that a request may take before it gets 504; default 120\n"
    "  --sequences N          maximum sequences per model that has session state; others get 503; default 100\n"
    "  --sequence-idle MS     milliseconds after whose last request a sequence ends; default 60000\n"
    "  --batch N              maximum requests computed as one batch, if measured to be faster; default 1\n"
    "  --most-bytes N         maximum bytes of a request body; larger ones get 413; default 67108864\n"
    "  --most-held N          maximum bytes of all bodies, inputs and replies at a time; others get 503; default: a\n"
    "                         quarter of the memory that the process may have\n"
    "  --transfer-timeout S   seconds in which a request must arrive, or its reply be taken, and one more for every\n"
    "                         16 KiB; default 30\n"
    "  --drain S              seconds for requests in flight after SIGTERM; default 25\n"
    "  --drain-delay S        seconds before that in which it is not ready but still answers, so that balancers\n"
    "                         notice; default 0\n"
    "  --bind ADDRESS         address to listen on instead of 127.0.0.1; if other machines can reach it, it needs\n"
    "                         tokens (--start) or --trust-network (in a container, behind a proxy)\n"
    "  --allowed-host A,B     names beside localhost and addresses by which management routes may be asked, and hosts\n"
    "                         whose pages may; others are refused where no token is asked for\n"
    "  --trust-network        accept everybody who can reach the address\n"
    "  --start, --stop        TorchServe's verbs; --start runs in the background unless --foreground is given\n"
    "  --ts-config FILE       TorchServe's config.properties; default: the one in this folder with --start\n"
    "  --python-handlers      run the Python handlers of archives, in processes of their own; they may do whatever "
    "this\n"
    "                         user may: only for archives that you trust\n"
    "  --python FILE          Python for that; default: python3 of PATH\n"
    "  --python-memory MIB    maximum memory of each such process; default: no limit\n"
    "  --model-store DIR      folder of the models that routes, --models and the config file name\n"
    "  --workflow-store DIR   folder of the workflows that routes name; default: that of the models\n"
    "  --models A.mar,n=B.mar models of the store to load at start, or `all`\n"
    "  --enable-model-api     allow registering and deleting models while the server runs\n"
    "  --access-log FILE|-    write a line of JSON for each request; -: to standard output\n"
    "  --disable-token-auth   require no tokens; else --start writes key_file.json, as TorchServe does\n"
    "  --version\n";

typedef enum kind { FLAG, NUMBER, TEXT, FIELD, PORT, HOST, ADDRESS, TRUTH, GRPC_TLS } kind;

typedef struct setting {
  const char *option; /* of the command line, or NULL */
  const char *key;    /* of the file, or NULL */
  kind kind;
  size_t at; /* in serve_options; of an address, its number */
  int64_t low, high;
} setting;

#define AT(field) offsetof(serve_options, field)

static const setting settings[] = {
    {"port", NULL, PORT, 0, 0, 65535},
    {"workers", NULL, NUMBER, AT(workers), 1, SERVE_MOST_WORKERS},
    {"io-threads", NULL, NUMBER, AT(io_threads), 1, SERVE_MOST_LOOPS},
    {"queue", "job_queue_size", NUMBER, AT(queue), 1, 65536},
    {"timeout", "default_response_timeout", NUMBER, AT(timeout_s), 1, 86400},
    {"batch", NULL, NUMBER, AT(batch), 1, SERVE_MOST_BATCH},
    {"sequences", NULL, NUMBER, AT(sequences), 1, SERVE_MOST_SEQUENCES},
    {"sequence-idle", NULL, NUMBER, AT(sequence_idle_ms), 1, 86400000},
    {"most-bytes", "max_request_size", NUMBER, AT(most_bytes), 1, (int64_t)1 << 40},
    {"most-held", "most_held", NUMBER, AT(most_held), 1 << 16, (int64_t)1 << 50},
    {"transfer-timeout", "transfer_timeout", NUMBER, AT(transfer_s), 1, 86400},
    {"drain", NULL, NUMBER, AT(drain_s), 0, 86400},
    {"drain-delay", NULL, NUMBER, AT(delay_s), 0, 86400},
    {"bind", NULL, HOST, 0, 0, 0},
    {"allowed-host", "allowed_host", TEXT, AT(allowed_hosts), 0, 0},
    {"trust-network", NULL, FLAG, AT(trust_network), 0, 0},
    {"start", NULL, FLAG, AT(start), 0, 0},
    {"stop", NULL, FLAG, AT(stop), 0, 0},
    {"foreground", NULL, FLAG, AT(foreground), 0, 0},
    {"ncs", NULL, FLAG, AT(ignored), 0, 0},
    {"no-config-snapshots", NULL, FLAG, AT(ignored), 0, 0},
    {"ts-config", NULL, TEXT, AT(config), 0, 0},
    {"model-store", "model_store", TEXT, AT(model_store), 0, 0},
    {"workflow-store", "workflow_store", TEXT, AT(workflow_store), 0, 0},
    {"models", "load_models", TEXT, AT(models), 0, 0},
    {"access-log", "access_log", TEXT, AT(access_log), 0, 0},
    {"key-file", NULL, TEXT, AT(key_file), 0, 0},
    {"python-handlers", NULL, FLAG, AT(python_handlers), 0, 0},
    {"python", NULL, TEXT, AT(python), 0, 0},
    {"python-memory", NULL, NUMBER, AT(python_memory), 16, 1 << 24},
    {"node-copies", NULL, TEXT, AT(node_copies), 0, 0},
    {"enable-model-api", NULL, FLAG, AT(model_api), 0, 0},
    {"disable-token-auth", NULL, FLAG, AT(no_tokens), 0, 0},
    {"dt", NULL, FLAG, AT(no_tokens), 0, 0},
    {"help", NULL, FLAG, AT(help), 0, 0},
    {"version", NULL, FLAG, AT(version), 0, 0},
    {NULL, "inference_address", ADDRESS, 0, 0, 0},
    {NULL, "management_address", ADDRESS, 1, 0, 0},
    {NULL, "metrics_address", ADDRESS, 2, 0, 0},
    {NULL, "cors_allowed_origin", FIELD, AT(cors[0]), 0, 0},
    {NULL, "cors_allowed_methods", FIELD, AT(cors[1]), 0, 0},
    {NULL, "cors_allowed_headers", FIELD, AT(cors[2]), 0, 0},
    {NULL, "certificate_file", TEXT, AT(certificate), 0, 0},
    {NULL, "private_key_file", TEXT, AT(private_key), 0, 0},
    {NULL, "enable_grpc_ssl", GRPC_TLS, 0, 0, 0},
    {NULL, "grpc_inference_address", HOST, 3, 0, 0},
    {NULL, "grpc_management_address", HOST, 4, 0, 0},
    {NULL, "grpc_inference_port", PORT, 3, 0, 65535},
    {NULL, "grpc_management_port", PORT, 4, 0, 65535},
    {NULL, "number_of_netty_threads", NUMBER, AT(netty_threads), 0, 1 << 16},
    {NULL, "default_workers_per_model", NUMBER, AT(start_workers), 0, SERVE_MOST_WORKERS},
    {NULL, "enable_model_api", TRUTH, AT(model_api), 0, 0},
    {NULL, "disable_token_authorization", TRUTH, AT(no_tokens), 0, 0},
    {NULL, "cpu_launcher_enable", TRUTH, AT(launcher), 0, 0},
    {NULL, "cpu_launcher_args", TEXT, AT(launcher_args), 0, 0},
    {NULL, "disable_system_metrics", TRUTH, AT(no_system_metrics), 0, 0},
};

/* TorchServe's keys that say nothing here: its Java front end, GPUs, Python workers, and what is always on. */
static const char meaningless[] =
    "grpc_inference_max_connection_age_ms,grpc_management_max_connection_age_ms,"
    "grpc_inference_max_connection_age_grace_ms,grpc_management_max_connection_age_grace_ms,"
    "netty_client_threads,use_native_io,io_ratio,prefer_direct_buffer,vmargs,debug,"
    "number_of_gpu,ipex_enable,ipex_gpu_enable,install_py_dep_per_model,"
    "blacklist_env_vars,async_logging,service_envelope,default_service_handler,ts_open_inference_protocol,"
    "initial_worker_port,initial_distribution_port,metrics_mode,metrics_config,enable_metrics_api,metrics_format,"
    "model_metrics_auto_detect,metric_time_interval,token_expiration_min,max_response_size,"
    "decode_input_request,limit_max_image_pixels,unregister_model_timeout,default_startup_timeout,"
    "enable_envvars_config,use_env_allowed_urls,allowed_urls,plugins_path,model_snapshot,"
    "snapshot_store,system_metrics_cmd";

const char *const serve_cors_fields[SERVE_CORS] = {"access-control-allow-origin", "access-control-allow-methods",
                                                   "access-control-allow-headers"};

/* May it be the value of a header field? */
static bool is_field(const char *value) {
  enum { MOST = 255 };
  for (const char *at = value; *at; at++)
    if (*at < ' ' || *at > '~' || at - value >= MOST) return false; /* bytes above 0x7f are negative */
  return true;
}

static td_status bad_value(const char *name, const char *value, const char *wanted, td_error *err) {
  return base_fail(err, TD_BAD_ARGUMENT, name, -1, "'%s' is no %s", value, wanted);
}

/* "http://127.0.0.1:8080", "127.0.0.1:8080", "unix:/path". */
static td_status read_address(const char *name, const char *value, serve_address *to, td_error *err) {
  const uint32_t roles = to->roles;
  const char *at = value, *colon;
  int64_t port;
  unsigned char ip[16];
  *to = (serve_address){.roles = roles};
  to->is_unix = !strncmp(at, "unix:", 5);
  if (to->is_unix) at += strncmp(at, "unix://", 7) ? 5 : 7;
  to->is_tls = !strncmp(at, "https://", 8);
  if (to->is_tls) at += 8;
  else if (!strncmp(at, "http://", 7)) at += 7;
  colon = to->is_unix ? at + strlen(at) : strrchr(at, ':');
  const size_t length = colon ? (size_t)(colon - at) : 0;
  if (!length || length >= sizeof to->host) return bad_value(name, value, "address such as http://127.0.0.1:8080", err);
  memcpy(to->host, at, length);
  if (to->is_unix) return TD_OK;
  if (strcmp(to->host, "localhost") == 0) strcpy(to->host, "127.0.0.1");
  if (inet_pton(AF_INET, to->host, ip) != 1 || !base_str_int(base_str_of(colon + 1), &port) || port < 0 || port > 65535)
    return bad_value(name, value, "IPv4 address and port", err);
  to->port = (uint16_t)port;
  return TD_OK;
}

static td_status apply(const setting *s, const char *name, const char *value, serve_options *o, td_error *err) {
  char *at = (char *)o + s->at;
  int64_t number = 1;
  if (s->kind == FIELD && !is_field(value)) return bad_value(name, value, "value of a header field", err);
  if (s->kind == TEXT || s->kind == FIELD) {
    *(const char **)(void *)at = value;
    return TD_OK;
  }
  if (s->kind == HOST) {
    unsigned char ip[16];
    if (inet_pton(AF_INET, value, ip) != 1) return bad_value(name, value, "IPv4 address", err);
    strcpy(o->addresses[s->at].host, value);
    return TD_OK;
  }
  if (s->kind == ADDRESS) return read_address(name, value, &o->addresses[s->at], err);
  if (s->kind == TRUTH || s->kind == GRPC_TLS) {
    number = strcmp(value, "true") == 0;
    if (!number && strcmp(value, "false") != 0) return bad_value(name, value, "true or false", err);
  } else if (s->kind != FLAG) {
    if (!base_str_int(base_str_of(value), &number) || number < s->low || number > s->high)
      return base_fail(err, TD_BAD_ARGUMENT, name, -1, "'%s' is no number from %lld to %lld", value, (long long)s->low,
                       (long long)s->high);
  }
  if (s->kind == GRPC_TLS) o->addresses[3].is_tls = o->addresses[4].is_tls = number;
  else if (s->kind == PORT) o->addresses[s->at].port = (uint16_t)number;
  else *(int64_t *)(void *)at = number;
  return TD_OK;
}

/* ---- the file: Java's properties ---- */

static char *trim(char *text) {
  size_t length;
  while (*text == ' ' || *text == '\t' || *text == '\f') text++;
  length = strlen(text);
  while (length && strchr(" \t\r\f", text[length - 1])) text[--length] = 0;
  return text;
}

static td_status read_line(char *line, serve_options *o, td_error *err) {
  char *key = trim(line), *value = key + strcspn(key, "=: \t");
  if (!*key || *key == '#' || *key == '!') return TD_OK;
  char *rest = value;
  while (*rest == ' ' || *rest == '\t') rest++;
  if (*rest == '=' || *rest == ':') rest++;
  *value = 0;
  rest = trim(rest);
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    if (settings[i].key && strcmp(settings[i].key, key) == 0) return apply(&settings[i], key, rest, o, err);
  if (base_str_listed(meaningless, key))
    fprintf(stderr, "treadle-serve: %s of the configuration has no meaning here\n", key);
  else if (strcmp(key, "models") != 0)
    return base_fail(err, TD_BAD_ARGUMENT, key, -1, "is no key of config.properties");
  return TD_OK;
}

td_status serve_read_properties(const void *bytes, size_t size, base_arena *arena, serve_options *o, td_error *err) {
  char *text = base_arena_slice(arena, bytes, size);
  td_status status = TD_OK;
  if (!text) return base_no_memory(err, "the configuration");
  for (char *next; status == TD_OK && *text; text = next) {
    char *end = text;
    for (;; end++) { /* a backslash at its end joins a line to the next */
      end += strcspn(end, "\n");
      if (end == text || end[-1] != '\\' || !*end) break;
      end[-1] = end[0] = ' ';
    }
    next = *end ? end + 1 : end;
    *end = 0;
    status = read_line(text, o, err);
  }
  return status;
}

static td_status read_file(const char *path, base_arena *arena, serve_options *o, td_error *err) {
  sys_mapping file;
  TRY(sys_file_map(path, &file, err));
  const td_status status = serve_read_properties(file.bytes, file.size, arena, o, err);
  sys_unmap(&file);
  return status == TD_OK ? TD_OK : base_error_name(err, status, "%s", path);
}

/* ---- the command line ---- */

static const setting *find_option(const char *word) {
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    if (settings[i].option && strcmp(settings[i].option, word) == 0) return &settings[i];
  return NULL;
}

/* One option at words[0] into `o`; *taken words belong to it. Words of `--models` are joined by commas. */
static td_status read_option(char **words, base_arena *arena, serve_options *o, int *taken, td_error *err) {
  char *name = base_arena_slice(arena, words[0] + 2, strlen(words[0] + 2)), *equals = name ? strchr(name, '=') : NULL;
  if (!name) return base_no_memory(err, "an option");
  if (equals) *equals = 0;
  const setting *s = find_option(name);
  const char *value = equals ? equals + 1 : words[1];
  *taken = 1;
  if (!s) return base_fail(err, TD_BAD_ARGUMENT, words[0], -1, "is no option: see treadle serve --help");
  if (s->kind == FLAG) return apply(s, words[0], "", o, err);
  if (!value) return base_fail(err, TD_BAD_ARGUMENT, words[0], -1, "has no value");
  *taken = equals ? 1 : 2;
  if (s->at != AT(models)) return apply(s, words[0], value, o, err);
  base_text all = {.allocator = &base_libc_allocator};
  base_text_print(&all, "%s", value);
  for (; !equals && words[*taken] && words[*taken][0] != '-'; ++*taken) base_text_print(&all, ",%s", words[*taken]);
  o->models = all.failed ? NULL : base_arena_slice(arena, all.at, all.length);
  base_text_free(&all);
  return o->models ? TD_OK : base_no_memory(err, "names of models");
}

/* The options of the command line; what else stands there goes to the front of `words`, `*others` of them. */
static td_status read_words(int count, char **words, base_arena *arena, serve_options *o, int *others, td_error *err) {
  *others = 0;
  for (int i = 0, taken; i < count; i += taken) {
    taken = 1;
    if (strcmp(words[i], "-h") == 0) o->help = 1;
    else if (words[i][0] == '-') TRY(read_option(&words[i], arena, o, &taken, err));
    else words[(*others)++] = words[i];
  }
  return TD_OK;
}

static bool is_loopback(const serve_address *a) { return a->is_unix || !strncmp(a->host, "127.", 4); }

static td_status check(const serve_options *o, td_error *err) {
  if (o->access_log && strcmp(o->access_log, "-") == 0 && o->start && !o->foreground)
    return base_fail(err, TD_BAD_ARGUMENT, "--access-log", -1,
                     "a server in the background has no standard output: name a file, or say --foreground");
  for (int i = 0; i < SERVE_ADDRESSES; i++)
    if (o->addresses[i].roles && !is_loopback(&o->addresses[i]) && (o->no_tokens || !o->start) && !o->trust_network)
      return base_fail(err, TD_BAD_ARGUMENT, o->addresses[i].host, -1,
                       "others than this machine could connect, and no tokens are asked for: listen on 127.0.0.1, use "
                       "--start without --disable-token-auth, or say --trust-network");
  return TD_OK;
}

/* TorchServe's five addresses; equal ones share a socket. */
static void share_addresses(serve_options *o) {
  for (int i = 1; i < SERVE_ADDRESSES; i++)
    for (int j = 0; j < i; j++) {
      serve_address *a = &o->addresses[i], *b = &o->addresses[j];
      if (!a->roles || !b->roles || a->port != b->port || a->is_tls != b->is_tls || (!a->port && !a->is_unix) ||
          strcmp(a->host, b->host) != 0)
        continue;
      b->roles |= a->roles;
      a->roles = 0;
    }
}

td_status serve_read_options(int count, char **words, base_arena *arena, serve_options *o, td_error *err) {
  const serve_address local = {.host = "127.0.0.1", .port = 8080, .roles = SERVE_INFER | SERVE_MANAGE | SERVE_METRICS};
  static const uint16_t ports[SERVE_ADDRESSES] = {8080, 8081, 8082, 7070, 7071};
  static const uint32_t roles[SERVE_ADDRESSES] = {SERVE_INFER, SERVE_MANAGE, SERVE_METRICS, SERVE_INFER, SERVE_MANAGE};
  serve_options line = *o;
  int others;
  char **copy = base_new(arena, char *, (size_t)count + 1);
  if (!copy) return base_no_memory(err, "options");
  memcpy(copy, words, (size_t)count * sizeof *words);
  TRY(read_words(count, copy, arena, &line, &others, err)); /* which file, and is it TorchServe's way? */
  o->addresses[0] = local;
  if (line.start || line.stop || line.config) {
    for (int i = 0; i < SERVE_ADDRESSES; i++) {
      o->addresses[i] = local;
      o->addresses[i].port = ports[i];
      o->addresses[i].roles = roles[i];
    }
    FILE *there = line.config ? NULL : fopen("config.properties", "r");
    if (there) fclose(there);
    if (line.config || there) TRY(read_file(line.config ? line.config : "config.properties", arena, o, err));
  }
  TRY(read_words(count, words, arena, o, &others, err));
  words[others] = NULL;
  share_addresses(o);
  return check(o, err);
}
