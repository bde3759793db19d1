/* model-config.yaml of an archive: what is read is within its bounds, and what is not is said. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size ? size : 1); /* of its own, so that a byte beyond it is found */
  serve_config config = SERVE_SAYS_NOTHING;
  td_error err = {.offset = -1};
  if (!copy) abort();
  if (size) memcpy(copy, data, size);
  if (serve_read_yaml("model-config.yaml", copy, size, &config, &err) != TD_OK) assert(err.text[0]);
  assert(config.min_workers >= -1 && config.min_workers <= SERVE_MOST_WORKERS);
  assert(config.max_workers >= -1 && config.max_workers <= SERVE_MOST_WORKERS);
  assert(config.batch == -1 || (config.batch >= 1 && config.batch <= SERVE_MOST_BATCH));
  assert(config.queue == -1 || config.queue >= 1);
  assert(config.delay_ms >= -1 && config.timeout_s >= -1 && config.client_ms >= -1 && config.start_s >= -1);
  assert(config.sequences >= -1 && config.sequences <= SERVE_MOST_SEQUENCES);
  free(copy);
  return 0;
}
