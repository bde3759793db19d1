/* allocators.c -- what memory for activations costs under a load that grows and shrinks.
 *
 *     bench_allocators CYCLES [arena]
 *
 * A cycle is a batch of 1, 2, 4, 8, 16, 8, 4, 2, 1 through 24 layers, each of which takes a result of 0.25 to 4 MiB a
 * sample, writes every line of it, and gives back what the layer before wrote: as engines do that ask malloc for every
 * tensor. With `arena` the same results lie at offsets in one block, which grows once: as a session's do. Prints
 * microseconds and page faults per batch, and the most memory that was resident. Run it under LD_PRELOAD for each
 * allocator; bench/allocators.sh does. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { LAYERS = 24, LINE = 64 };
static const size_t batches[] = {1, 2, 4, 8, 16, 8, 4, 2, 1};
enum { BATCHES = sizeof batches / sizeof *batches };

static size_t layer_bytes(int layer, size_t batch) { return batch * ((size_t)1 << (18 + layer * 7 % 5)); }

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static void write_lines(volatile char *memory, size_t bytes) {
  for (size_t i = 0; i < bytes; i += LINE) memory[i] = (char)i;
}

static bool with_malloc(size_t batch) {
  char *before = NULL;
  for (int layer = 0; layer < LAYERS; layer++) {
    char *result = malloc(layer_bytes(layer, batch));
    if (!result) return false;
    write_lines(result, layer_bytes(layer, batch));
    free(before);
    before = result;
  }
  free(before);
  return true;
}

/* Neighbouring layers at either end of the block. */
static bool with_arena(size_t batch, char **block, size_t *size) {
  size_t need = 0;
  for (int layer = 0; layer + 1 < LAYERS; layer++) {
    const size_t both = layer_bytes(layer, batch) + layer_bytes(layer + 1, batch);
    if (both > need) need = both;
  }
  if (need > *size) {
    free(*block);
    *block = malloc(need);
    *size = *block ? need : 0;
  }
  for (int layer = 0; *block && layer < LAYERS; layer++) {
    const size_t bytes = layer_bytes(layer, batch);
    write_lines(layer % 2 ? *block + (need - bytes) : *block, bytes);
  }
  return *block;
}

int main(int count, char **words) {
  const int cycles = count > 1 ? atoi(words[1]) : 20;
  const bool arena = count > 2 && strcmp(words[2], "arena") == 0;
  char *block = NULL;
  size_t size = 0;
  struct rusage before, after;
  double began = 0;
  for (int cycle = -1; cycle < cycles; cycle++) { /* the first is not counted */
    if (cycle == 0) {
      getrusage(RUSAGE_SELF, &before);
      began = now_us();
    }
    for (int i = 0; i < BATCHES; i++)
      if (!(arena ? with_arena(batches[i], &block, &size) : with_malloc(batches[i]))) return 1;
  }
  const double runs = (double)cycles * BATCHES, us = (now_us() - began) / runs;
  getrusage(RUSAGE_SELF, &after);
  printf("%.0f us, %.1f faults a batch, %.0f MiB\n", us, (double)(after.ru_minflt - before.ru_minflt) / runs,
         (double)after.ru_maxrss / 1024);
  free(block);
  return 0;
}
