/* test_frame.c -- frames of processes with Python handlers: heads, parts and tensors, whole, cut and damaged. */
#include "test.h"

#include <stdio.h>

#include "frame.h"

static td_error err;

static base_arena *arena_of(void) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  assert_non_null(arena);
  return arena;
}

static void heads_come_back(void **state) {
  (void)state;
  uint8_t bytes[FRAME_HEAD];
  frame_head head;
  frame_write_head(bytes, &(frame_head){FRAME_REPLY, 0x010203, 0x0405060708});
  assert_memory_equal(bytes, "TPY\x11\x03\x02\x01\0\x08\x07\x06\x05\x04\0\0\0", FRAME_HEAD);
  assert_int_equal(frame_read_head(bytes, 0x0405060708, &head, &err), TD_OK);
  assert_true(head.kind == FRAME_REPLY && head.text == 0x010203 && head.bytes == 0x0405060708);
  assert_int_equal(frame_read_head(bytes, 0x0405060707, &head, &err), TD_BAD_FILE);
  assert_non_null(strstr(err.text, "--most-bytes"));
}

static void other_heads_are_refused(void **state) {
  (void)state;
  uint8_t bytes[FRAME_HEAD];
  frame_head head;
  for (uint32_t kind = 0; kind < 256; kind++) {
    frame_write_head(bytes, &(frame_head){kind, 2, 0});
    const bool known = kind >= FRAME_LOADED && kind <= FRAME_PART; /* those of the server come from nobody else */
    assert_int_equal(frame_read_head(bytes, 100, &head, &err), known ? TD_OK : TD_BAD_FILE);
  }
  frame_write_head(bytes, &(frame_head){FRAME_REPLY, FRAME_MOST_TEXT + 1, 0});
  assert_int_equal(frame_read_head(bytes, 100, &head, &err), TD_BAD_FILE);
  frame_write_head(bytes, &(frame_head){FRAME_REPLY, FRAME_MOST_TEXT, UINT64_MAX});
  assert_int_equal(frame_read_head(bytes, 100, &head, &err), TD_BAD_FILE);
  frame_write_head(bytes, &(frame_head){FRAME_REPLY, 2, 0});
  bytes[1] ^= 1;
  assert_int_equal(frame_read_head(bytes, 100, &head, &err), TD_BAD_FILE);
}

static td_status read_text(base_arena *arena, const char *text, const char *bytes, size_t count, frame *f) {
  const frame_head head = {FRAME_REPLY, (uint32_t)strlen(text), count};
  return frame_read(arena, &head, text, bytes, f, &err);
}

static void parts_are_taken_in_order(void **state) {
  (void)state;
  base_arena *arena = arena_of();
  frame f;
  base_str part;
  assert_int_equal(read_text(arena, "{\"r\":[{\"bytes\":3},{\"bytes\":0},{\"bytes\":2}]}", "abcde", 5, &f), TD_OK);
  const fmt_json *list = fmt_json_get(f.root, "r");
  assert_int_equal(frame_take(&f, fmt_json_at(list, 0), &part, &err), TD_OK);
  assert_true(base_str_is(part, "abc"));
  assert_int_equal(frame_take(&f, fmt_json_at(list, 1), &part, &err), TD_OK);
  assert_true(base_str_is(part, ""));
  assert_int_equal(frame_end(&f, &err), TD_BAD_FILE);
  assert_int_equal(frame_take(&f, fmt_json_at(list, 2), &part, &err), TD_OK);
  assert_true(base_str_is(part, "de"));
  assert_int_equal(frame_end(&f, &err), TD_OK);
  base_arena_free(arena);
}

static void counts_that_cannot_be(void **state) {
  static const char *const counts[] = {"6",    "-1", "9223372036854775807", "18446744073709551616", "1.0", "\"1\"",
                                       "null", "[1]"};
  (void)state;
  base_arena *arena = arena_of();
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    char text[64];
    frame f;
    base_str part;
    snprintf(text, sizeof text, "{\"bytes\":%s}", counts[i]);
    assert_int_equal(read_text(arena, text, "abcde", 5, &f), TD_OK);
    assert_int_equal(frame_take(&f, f.root, &part, &err), TD_BAD_FILE);
  }
  frame f;
  base_str part;
  assert_int_equal(read_text(arena, "{}", "", 0, &f), TD_OK);
  assert_int_equal(frame_take(&f, f.root, &part, &err), TD_BAD_FILE);
  assert_int_equal(frame_take(&f, NULL, &part, &err), TD_BAD_FILE);
  assert_int_equal(read_text(arena, "[]", "", 0, &f), TD_BAD_FILE);
  assert_int_equal(read_text(arena, "", "", 0, &f), TD_BAD_FILE);
  base_arena_free(arena);
}

static void tensors_are_what_they_say(void **state) {
  static const struct {
    const char *text;
    td_status status;
  } rows[] = {
      {"{\"dtype\":\"float32\",\"shape\":[1,2],\"bytes\":8}", TD_OK},
      {"{\"dtype\":\"int64\",\"shape\":[],\"bytes\":8}", TD_OK},
      {"{\"dtype\":\"bool\",\"shape\":[2,0],\"bytes\":0}", TD_OK},
      {"{\"dtype\":\"float32\",\"shape\":[1,3],\"bytes\":8}", TD_BAD_FILE},
      {"{\"dtype\":\"float32\",\"shape\":[1,3],\"bytes\":12}", TD_BAD_FILE},
      {"{\"dtype\":\"float32\",\"shape\":[-1,-2],\"bytes\":8}", TD_BAD_FILE},
      {"{\"dtype\":\"float32\",\"shape\":[4294967296,4294967296],\"bytes\":0}", TD_BAD_FILE},
      {"{\"dtype\":\"float32\",\"shape\":[2305843009213693954],\"bytes\":8}", TD_BAD_FILE},
      {"{\"dtype\":\"float32\",\"shape\":[2.0],\"bytes\":8}", TD_BAD_FILE},
      {"{\"dtype\":\"float32\",\"shape\":2,\"bytes\":8}", TD_BAD_FILE},
      {"{\"dtype\":\"float32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2],\"bytes\":8}", TD_BAD_FILE},
      {"{\"dtype\":\"float33\",\"shape\":[2],\"bytes\":8}", TD_BAD_FILE},
      {"{\"dtype\":\"string\",\"shape\":[2],\"bytes\":8}", TD_BAD_FILE},
      {"{\"shape\":[2],\"bytes\":8}", TD_BAD_FILE},
      {"{}", TD_BAD_FILE},
  };
  (void)state;
  base_arena *arena = arena_of();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    frame f;
    td_tensor t;
    assert_int_equal(read_text(arena, rows[i].text, "abcdefgh", 8, &f), TD_OK);
    assert_int_equal(frame_take_tensor(&f, f.root, &t, &err), rows[i].status);
  }
  base_arena_free(arena);
}

/* Whatever bytes are changed: it is refused, or all that it gives lies within the frame. */
static void damaged_frames(void **state) {
  static const char text[] =
      "{\"inputs\":[{\"dtype\":\"int16\",\"shape\":[2,2],\"bytes\":8},{\"bytes\":3,\"shape\":[3],"
      "\"dtype\":\"uint8\",\"name\":\"x\"}]}";
  enum { TEXT = sizeof text - 1, BYTES = 11, ALL = FRAME_HEAD + TEXT + BYTES };
  uint32_t seed = 7;
  (void)state;
  for (int round = 0; round < 20000; round++) {
    base_arena *arena = arena_of();
    uint8_t *whole = malloc(ALL); /* its own block: the sanitizer sees what leads out of it */
    frame_head head;
    frame f;
    assert_non_null(whole);
    frame_write_head(whole, &(frame_head){FRAME_RUN, TEXT, BYTES});
    memcpy(whole + FRAME_HEAD, text, TEXT);
    memset(whole + FRAME_HEAD + TEXT, 1, BYTES);
    for (uint32_t changes = (uint32_t)round % 4; changes; changes--) {
      seed = seed * 1664525 + 1013904223;
      whole[(seed >> 8) % (FRAME_HEAD + TEXT)] =
          changes % 2 ? (uint8_t)(seed >> 24) : (uint8_t) "0123456789-.e[]{"[seed >> 27 & 15];
    }
    const char *bytes = (const char *)whole + FRAME_HEAD + TEXT;
    if (frame_read_head(whole, BYTES, &head, &err) == TD_OK && head.text <= TEXT &&
        frame_read(arena, &head, (const char *)whole + FRAME_HEAD, bytes, &f, &err) == TD_OK) {
      const fmt_json *inputs = fmt_json_get(f.root, "inputs");
      for (size_t i = 0; i < fmt_json_count(inputs); i++) {
        td_tensor t;
        size_t count;
        int64_t elements;
        if (frame_take_tensor(&f, fmt_json_at(inputs, i), &t, &err) != TD_OK) continue;
        assert_true(base_numel(t.rank, t.dims, &elements) && base_dtype_bytes(t.dtype, elements, &count));
        assert_true((const char *)t.data >= bytes && (const char *)t.data + count <= bytes + BYTES);
      }
      assert_true(f.left <= BYTES);
      if (round % 4 == 0) assert_int_equal(frame_end(&f, &err), TD_OK);
    } else {
      assert_int_not_equal(round % 4, 0);
    }
    free(whole);
    base_arena_free(arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(heads_come_back),           cmocka_unit_test(other_heads_are_refused),
      cmocka_unit_test(parts_are_taken_in_order),  cmocka_unit_test(counts_that_cannot_be),
      cmocka_unit_test(tensors_are_what_they_say), cmocka_unit_test(damaged_frames),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
