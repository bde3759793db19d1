/* main.c -- `treadle-quantize`. */
#include <stdio.h>

#include "job.h"

int main(int count, char **words) {
  td_error err = {.offset = -1};
  const td_status status = quant_run(count - 1, words + 1, &base_libc_allocator, stdout, &err);
  if (status != TD_OK) fprintf(stderr, "treadle: quantize: %s%s%s\n", err.name, *err.name ? ": " : "", err.text);
  return (int)status;
}
