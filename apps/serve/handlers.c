/* handlers.c -- TorchServe's built-in handlers: how each reads a body and writes its answer, and the inputs of its
 * TorchScript models, which do not say them. */
#include "server.h"

#include <string.h>

static const serve_handler handlers[] = {
    {"image_classifier", &serve_prediction, "imagenet", {{.dtype = TD_F32, .rank = 4, .dims = {-1, 3, 224, 224}}}, 1},
    {"image_segmenter", &serve_segments, "imagenet", {{.dtype = TD_F32, .rank = 4, .dims = {-1, 3, 224, 224}}}, 1},
    {"object_detector", &serve_objects, "raw", {{.dtype = TD_F32, .rank = 4, .dims = {1, 3, -1, -1}}}, 1},
    {"text_classifier",
     &serve_text,
     "imagenet",
     {{.dtype = TD_I64, .rank = 1, .dims = {-1}}, {.dtype = TD_I64, .rank = 1, .dims = {1}}},
     2}};

const serve_handler *serve_find_handler(const char *name) {
  for (size_t i = 0; name && i < sizeof handlers / sizeof *handlers; i++)
    if (strcmp(handlers[i].name, name) == 0) return &handlers[i];
  return NULL;
}
