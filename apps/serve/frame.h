/* frame.h -- what the server and a process with a Python handler say to each other: frames of a head, a text in JSON,
 * and bytes. The text says how many of the bytes belong to what. Reading believes nothing: a frame comes from a process
 * that runs a stranger's code. */
#ifndef SERVE_FRAME_H
#define SERVE_FRAME_H
#include "fmt/json.h"

/* The head: "TPY", the kind, and then, little-endian, the length of the text (u32) and that of the bytes (u64). */
enum { FRAME_HEAD = 16, FRAME_MOST_TEXT = 1 << 24 };

typedef enum frame_kind {
  /* of the server */
  FRAME_LOAD = 1,    /* import the handler and initialize it */
  FRAME_PREDICT = 2, /* a batch of requests */
  FRAME_OUTPUTS = 3, /* the answer to FRAME_RUN; with "error" where there is none */
  FRAME_CANCEL = 4,  /* nobody waits for the batch any more */
  /* of the worker */
  FRAME_LOADED = 16,
  FRAME_REPLY = 17,  /* the batch's replies */
  FRAME_RUN = 18,    /* have the archive's model compute these tensors */
  FRAME_FAILED = 19, /* instead of FRAME_LOADED or FRAME_REPLY */
  FRAME_PART = 20,   /* of each reply of the batch, before the rest */
} frame_kind;

typedef struct frame_head {
  uint32_t kind, text;
  uint64_t bytes;
} frame_head;

void frame_write_head(uint8_t to[FRAME_HEAD], const frame_head *head);
/* TD_BAD_FILE: no head of a worker's frame, or more than `most` bytes. */
td_status frame_read_head(const uint8_t from[FRAME_HEAD], uint64_t most, frame_head *head, td_error *err);

/* A frame that is there: its text, and the bytes of which nothing was taken yet. */
typedef struct frame {
  uint32_t kind;
  const fmt_json *root;
  const char *at;
  size_t left;
} frame;

/* Text and bytes as a frame; its values live in `arena`. */
td_status frame_read(base_arena *arena, const frame_head *head, const char *text, const char *bytes, frame *out,
                     td_error *err);
/* As many of the bytes as the item's "bytes" says. */
td_status frame_take(frame *f, const fmt_json *item, base_str *part, td_error *err);
/* The item as a tensor over the bytes: {"dtype", "shape", "bytes"}; aligned for any element type only if they were. */
td_status frame_take_tensor(frame *f, const fmt_json *item, td_tensor *t, td_error *err);
/* TD_BAD_FILE: bytes are left over. */
td_status frame_end(const frame *f, td_error *err);
#endif
