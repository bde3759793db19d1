/* fuzz_loop.c -- programs of fused loops from hostile text, and from hostile words. What is taken prints, and reads
 * back as the same. */
#include <stdlib.h>
#include <string.h>

#include "loop/loop.h"

static void round_trip(const base_program *p) {
  base_text text = {.allocator = &base_libc_allocator}, second = {.allocator = &base_libc_allocator};
  base_program again;
  td_error err;
  loop_print(p, &text);
  if (loop_parse(text.at, text.length, &again, &err) != TD_OK) abort();
  loop_print(&again, &second);
  if (strcmp(text.at, second.at) != 0) abort();
  base_text_free(&text);
  base_text_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  base_program p;
  td_error err;
  int64_t words[1 + BASE_PROGRAM_OPS * BASE_PROGRAM_WORDS];
  if (loop_parse((const char *)bytes, size, &p, &err) == TD_OK) round_trip(&p);
  const size_t count = size / sizeof *words;
  if (count == 0 || count > sizeof words / sizeof *words) return 0;
  memcpy(words, bytes, count * sizeof *words);
  if (base_program_read(words, (uint32_t)count, &p)) return 0;
  uint8_t stage[BASE_PROGRAM_OPS];
  bool kept[BASE_PROGRAM_OPS];
  base_program_stages(&p, stage);
  base_program_kept(&p, stage, kept);
  return 0;
}
