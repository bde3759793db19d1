/* Messages of gRPC: each is answered, and leaves nothing behind. The first byte says of which method it is. */
#include "h2.h"
#include "served.h"

#define KSERVE "/inference.GRPCInferenceService/"
#define TORCH "/org.pytorch.serve.grpc.inference.InferenceAPIsService/"
#define MANAGE "/org.pytorch.serve.grpc.management.ManagementAPIsService/"

static const char *const methods[] = {KSERVE "ModelInfer",      KSERVE "ModelMetadata", KSERVE "ModelReady",
                                      KSERVE "RepositoryIndex", TORCH "Predictions",    TORCH "StreamPredictions2",
                                      MANAGE "DescribeModel",   MANAGE "ListModels",    MANAGE "ScaleWorker",
                                      MANAGE "SetDefault",      MANAGE "RegisterModel", "/grpc.health.v1.Health/Check",
                                      KSERVE "ModelStreamInfer"};

static void respond(serve_job *job) {
  bool *answered = job->owner;
  assert(!*answered && job->status >= 200 && job->status < 600);
  serve_grpc_shape(job);
  *answered = true;
  serve_free_job(job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  serve_server *server = served();
  const base_str none = {NULL, 0};
  bool answered = false;
  serve_job job = {.owner = &answered, .respond = respond};
  if (size < 2) return 0;
  serve_begin_job(&job, server->loops);
  job.arena = base_arena_new(&job.memory);
  if (!job.arena || !serve_grow_body(&job, size - 1)) abort(); /* exactly: a byte beyond it is found */
  memcpy(job.body, data + 1, size - 1);
  job.count = job.received = size - 1;
  job.roles = SERVE_INFER | SERVE_MANAGE;
  job.type = "application/json";
  job.client = "fuzz";
  job.json_count = -1;
  job.is_grpc = true;
  job.method = BASE_STR("POST");
  job.path = base_str_of(methods[data[0] % (sizeof methods / sizeof *methods)]);
  job.is_torch = serve_is_torch(job.path);
  serve_name_request(&job, none, none);
  if (serve_grpc(&job)) respond(&job);
  work_off(server);
  assert(answered && serve_held(server) == 0);
  return 0;
}
