/* A connection of HTTP/2 behind its preface and the client's SETTINGS: REST and gRPC on its streams. Whatever comes,
 * and however it is cut, what is asked is answered or thrown away, and nothing is left. The first byte says where the
 * bytes are cut. */
#include <sys/socket.h>
#include <unistd.h>

#include "h2.h"
#include "served.h"

static void ready(void *owner) { *(bool *)owner = true; }

/* What the client would read. */
static void read_away(int fd) {
  char bytes[16384];
  while (read(fd, bytes, sizeof bytes) > 0) continue;
}

/* False: the connection is to be closed. */
static bool give(serve_h2 *h, const char *bytes, size_t count, int client) {
  bool works = serve_h2_receive(h, bytes, count) && serve_h2_send(h);
  read_away(client);
  work_off(served());
  works = works && serve_h2_send(h);
  read_away(client);
  return works;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char begin[] = SERVE_H2_PREFACE "\0\0\0\x04\0\0\0\0"; /* and the 0 at its end */
  serve_server *server = served();
  serve_channel channel;
  int ends[2];
  bool is_ready = false;
  if (size < 2) return 0;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0 || !serve_channel_open(&channel, ends[0], NULL))
    abort();
  serve_h2 *h =
      serve_h2_open(server->loops, &channel, "fuzz", SERVE_INFER | SERVE_MANAGE | SERVE_METRICS, ready, &is_ready);
  if (!h) abort();
  bool works = give(h, begin, sizeof begin, ends[1]);
  assert(works);
  const size_t step = 1 + (size_t)data[0] * 4;
  for (size_t at = 1; works && at < size; at += step) {
    const size_t count = step < size - at ? step : size - at;
    char *piece = malloc(count); /* of its own, so that a byte beyond it is found */
    if (!piece) abort();
    memcpy(piece, data + at, count);
    works = give(h, piece, count, ends[1]);
    free(piece);
  }
  if (works && serve_h2_end(h)) serve_h2_send(h);
  serve_h2_close(h);
  work_off(server);
  serve_channel_close(&channel);
  close(ends[1]);
  assert(serve_held(server) == 0);
  return 0;
}
