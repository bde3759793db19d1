/* test_perf.c -- what perf is told of generated code, read by a parser of its own. */
#include "test.h"

#include <stdio.h>

#include "profile/perf.h"

static const unsigned char first[] = {0x90, 0xc3}, second[] = {0x31, 0xc0, 0x00, 0xc3, 0xc3};
static const prof_code code[] = {
    {.name = "fused_add_0 (/add +1)", .at = first, .bytes = sizeof first, .source = "/cache/a.c", .line = 12},
    {.name = "fused_exp_1 (/exp +0)", .at = second, .bytes = sizeof second}};
enum { COUNT = 2 };

static td_status add(void *user, const char *bytes, size_t count) {
  base_text_add(user, bytes, count);
  return ((base_text *)user)->failed ? TD_NO_RESOURCE : TD_OK;
}

static td_status refuse(void *user, const char *bytes, size_t count) {
  (void)user, (void)bytes, (void)count;
  return TD_NO_RESOURCE;
}

/* ---- a reader of jitdump files, after the specification ---- */

typedef struct reader {
  const unsigned char *at, *end;
} reader;

static uint64_t take(reader *r, size_t bytes) {
  uint64_t value = 0;
  assert_true((size_t)(r->end - r->at) >= bytes);
  memcpy(&value, r->at, bytes);
  r->at += bytes;
  return value;
}

static const char *take_string(reader *r) {
  const char *text = (const char *)r->at;
  const unsigned char *nul = memchr(r->at, 0, (size_t)(r->end - r->at));
  assert_non_null(nul);
  r->at = nul + 1;
  return text;
}

static void read_place(reader *r, const prof_code *c) {
  assert_int_equal(take(r, 8), (uintptr_t)c->at);
  assert_int_equal(take(r, 8), 1);
  assert_int_equal(take(r, 8), (uintptr_t)c->at);
  assert_int_equal(take(r, 4), c->line);
  assert_int_equal(take(r, 4), 0);
  assert_string_equal(take_string(r), c->source);
}

static void read_load(reader *r, const prof_code *c, const prof_process *process, uint64_t number) {
  assert_int_equal(take(r, 4), process->pid);
  assert_int_equal(take(r, 4), process->tid);
  assert_int_equal(take(r, 8), (uintptr_t)c->at);
  assert_int_equal(take(r, 8), (uintptr_t)c->at);
  assert_int_equal(take(r, 8), c->bytes);
  assert_int_equal(take(r, 8), number);
  assert_string_equal(take_string(r), c->name);
  assert_true((size_t)(r->end - r->at) == c->bytes);
  assert_memory_equal(r->at, c->at, c->bytes);
}

static void jitdump_can_be_read(void **state) {
  (void)state;
  base_text text = {.allocator = &base_libc_allocator};
  const prof_process process = {.pid = 77, .tid = 78, .ns = 123456789012345};
  assert_int_equal(prof_write_jitdump(code, COUNT, &process, &base_libc_allocator, add, &text), TD_OK);
  reader r = {(unsigned char *)text.at, (unsigned char *)text.at + text.length};
  assert_memory_equal(r.at, "DTiJ", 4); /* the magic number as a little machine writes it */
  take(&r, 4);
  assert_int_equal(take(&r, 4), 1);
  assert_int_equal(take(&r, 4), 40);
  assert_int_equal(take(&r, 4), 62); /* x86-64 */
  assert_int_equal(take(&r, 4), 0);
  assert_int_equal(take(&r, 4), process.pid);
  assert_int_equal(take(&r, 8), process.ns);
  assert_int_equal(take(&r, 8), 0);
  uint32_t loads = 0, places = 0;
  while (r.at < r.end) {
    const unsigned char *begin = r.at;
    const uint64_t what = take(&r, 4), bytes = take(&r, 4);
    assert_int_equal(take(&r, 8), process.ns);
    assert_true(bytes >= 16 && begin + bytes <= r.end);
    reader record = {r.at, begin + bytes};
    if (what == 2) read_place(&record, &code[places++]);
    else if (what == 0) read_load(&record, &code[loads], &process, loads), loads++;
    else fail_msg("record %llu", (unsigned long long)what);
    r.at = begin + bytes;
  }
  assert_int_equal(loads, COUNT);
  assert_int_equal(places, 1); /* in front of its own function: the other has no source */
  base_text_free(&text);
}

static void map_can_be_read(void **state) {
  (void)state;
  base_text text = {.allocator = &base_libc_allocator};
  assert_int_equal(prof_write_map(code, COUNT, &base_libc_allocator, add, &text), TD_OK);
  const char *line = text.at;
  for (uint32_t i = 0; i < COUNT; i++) {
    unsigned long long at, bytes;
    char name[64];
    assert_int_equal(sscanf(line, "%llx %llx %63[^\n]", &at, &bytes, name), 3);
    assert_int_equal(at, (uintptr_t)code[i].at);
    assert_int_equal(bytes, code[i].bytes);
    assert_string_equal(name, code[i].name);
    line = strchr(line, '\n') + 1;
  }
  assert_int_equal(*line, 0);
  base_text_free(&text);
}

static void what_cannot_be_written_is_an_error(void **state) {
  (void)state;
  const prof_process process = {.pid = 1};
  assert_int_equal(prof_write_map(code, COUNT, &base_libc_allocator, refuse, NULL), TD_NO_RESOURCE);
  assert_int_equal(prof_write_jitdump(code, COUNT, &process, &base_libc_allocator, refuse, NULL), TD_NO_RESOURCE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(jitdump_can_be_read),
      cmocka_unit_test(map_can_be_read),
      cmocka_unit_test(what_cannot_be_written_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
