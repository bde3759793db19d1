/* Zip archives: our own, PyTorch's quirks, deflate, ZIP64, and directories that lie. */
#include <libdeflate.h>
#include <zlib.h>

#include "fmt/check.h"

static base_arena *arena;
static bool no_decompressor;

/* libdeflate allocates by the C library: here that fails when no_decompressor says so (--wrap). */
struct libdeflate_decompressor *__real_libdeflate_alloc_decompressor(void);
struct libdeflate_decompressor *__wrap_libdeflate_alloc_decompressor(void);
struct libdeflate_decompressor *__wrap_libdeflate_alloc_decompressor(void) {
  return no_decompressor ? NULL : __real_libdeflate_alloc_decompressor();
}

static int setup(void **state) {
  (void)state;
  arena = base_arena_new(&base_libc_allocator);
  return arena ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  base_arena_free(arena);
  return 0;
}

static void put(base_text *t, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) {
    char byte = (char)(i < 8 ? value >> (8 * i) : 0);
    base_text_add(t, &byte, 1);
  }
}

/* One entry "a/x", written by hand so that each field can lie. */
typedef struct handmade {
  uint32_t method;
  uint64_t packed, bytes; /* as the directory has them */
  bool zip64;             /* sizes and offsets in the 64-bit records, all ones in the others */
  uint32_t copies;        /* of the directory entry */
  bool same_name;         /* of the copies */
} handmade;

static void put_entry(base_text *t, const handmade *h, char name) {
  put(t, 0x02014b50, 4);
  put(t, 0, 4);
  put(t, 0, 2);
  put(t, h->method, 2);
  put(t, 0, 8);
  put(t, h->zip64 ? UINT32_MAX : h->packed, 4);
  put(t, h->zip64 ? UINT32_MAX : h->bytes, 4);
  put(t, 3, 2);
  put(t, h->zip64 ? 4 + 24 : 0, 2);
  put(t, 0, 10);
  put(t, h->zip64 ? UINT32_MAX : 0, 4);
  base_text_add(t, "a/", 2);
  put(t, (uint8_t)name, 1);
  if (!h->zip64) return;
  put(t, 1, 2);
  put(t, 24, 2);
  put(t, h->bytes, 8);
  put(t, h->packed, 8);
  put(t, 0, 8);
}

static base_text build(const handmade *h, const void *data, size_t size) {
  base_text t = new_text();
  put(&t, 0x04034b50, 4); /* PyTorch: everything zero but the lengths of name and extra field */
  put(&t, 0, 22);
  put(&t, 3, 2);
  put(&t, 5, 2);
  base_text_add(&t, "a/xFB\1\0.", 8);
  base_text_add(&t, data, size);
  size_t start = t.length;
  for (uint32_t i = 0; i < h->copies; i++) put_entry(&t, h, h->same_name ? 'x' : (char)('x' + i));
  size_t bytes = t.length - start, end64 = t.length;
  if (h->zip64) {
    put(&t, 0x06064b50, 4);
    put(&t, 44, 8);
    put(&t, 0, 12);
    put(&t, h->copies, 8);
    put(&t, h->copies, 8);
    put(&t, bytes, 8);
    put(&t, start, 8);
    put(&t, 0x07064b50, 4);
    put(&t, 0, 4);
    put(&t, end64, 8);
    put(&t, 1, 4);
  }
  put(&t, 0x06054b50, 4);
  put(&t, 0, 4);
  put(&t, h->zip64 ? UINT16_MAX : h->copies, 2);
  put(&t, h->zip64 ? UINT16_MAX : h->copies, 2);
  put(&t, h->zip64 ? UINT32_MAX : bytes, 4);
  put(&t, h->zip64 ? UINT32_MAX : start, 4);
  put(&t, 0, 2);
  return t;
}

/* Opens and reads every entry. */
static td_status read_all(const td_allocator *allocator, const uint8_t *bytes, size_t size, td_error *err) {
  base_arena *a = base_arena_new(allocator);
  fmt_zip zip = {.count = 0};
  td_status status = a ? fmt_zip_open(a, bytes, size, &zip, err) : base_no_memory(err, "arena");
  for (uint32_t i = 0; status == TD_OK && i < zip.count; i++) {
    const uint8_t *data;
    unsigned sum = 0;
    status = fmt_zip_read(a, &zip, &zip.entries[i], &data, err);
    for (uint64_t k = 0; status == TD_OK && k < zip.entries[i].bytes; k++) sum += data[k];
    (void)sum;
  }
  base_arena_free(a);
  return status;
}

static void written_is_read(void **state) {
  (void)state;
  base_text t = new_text();
  fmt_zip_writer w = {.out = &t, .directory = new_text()};
  assert_int_equal(fmt_zip_add(&w, "one.txt", "hello", 5, NULL), TD_OK);
  assert_int_equal(fmt_zip_add(&w, "dir/empty", NULL, 0, NULL), TD_OK);
  assert_int_equal(fmt_zip_finish(&w, NULL), TD_OK);
  fmt_zip zip;
  const uint8_t *data;
  assert_true(fmt_zip_sniff(t.at, t.length));
  assert_int_equal(fmt_zip_open(arena, t.at, t.length, &zip, NULL), TD_OK);
  assert_int_equal(zip.count, 2);
  const fmt_zip_entry *e = fmt_zip_find(&zip, BASE_STR("one.txt"));
  assert_non_null(e);
  assert_int_equal(fmt_zip_read(arena, &zip, e, &data, NULL), TD_OK);
  assert_int_equal(e->bytes, 5);
  assert_memory_equal(data, "hello", 5);
  assert_int_equal((const char *)data - t.at, 64);
  assert_null(fmt_zip_find(&zip, BASE_STR("none")));
  read_damaged(read_all, t.at, t.length);
  read_without_memory(read_all, t.at, t.length);
  base_text_free(&t);
}

static void local_headers_are_not_believed(void **state) {
  (void)state;
  for (int zip64 = 0; zip64 < 2; zip64++) {
    handmade h = {.packed = 3, .bytes = 3, .zip64 = zip64, .copies = 1};
    base_text t = build(&h, "abc", 3);
    fmt_zip zip;
    const uint8_t *data;
    assert_int_equal(fmt_zip_open(arena, t.at, t.length, &zip, NULL), TD_OK);
    assert_int_equal(fmt_zip_read(arena, &zip, fmt_zip_find(&zip, BASE_STR("a/x")), &data, NULL), TD_OK);
    assert_memory_equal(data, "abc", 3);
    read_damaged(read_all, t.at, t.length);
    base_text_free(&t);
  }
}

/* Raw deflate of `size` zero bytes. */
static size_t deflate_zeros(uint8_t *to, size_t room, size_t size) {
  z_stream z = {.next_out = to, .avail_out = (uInt)room};
  uint8_t *zeros = calloc(1, size);
  assert_non_null(zeros);
  assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  z.next_in = zeros;
  z.avail_in = (uInt)size;
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  deflateEnd(&z);
  free(zeros);
  return room - z.avail_out;
}

static void deflated_entries(void **state) {
  (void)state;
  uint8_t packed[512];
  size_t size = deflate_zeros(packed, sizeof packed, 5000);
  handmade h = {.method = 8, .packed = size, .bytes = 5000, .copies = 1};
  base_text t = build(&h, packed, size);
  fmt_zip zip;
  const uint8_t *data;
  assert_int_equal(fmt_zip_open(arena, t.at, t.length, &zip, NULL), TD_OK);
  assert_int_equal(fmt_zip_read(arena, &zip, &zip.entries[0], &data, NULL), TD_OK);
  for (int i = 0; i < 5000; i++) assert_int_equal(data[i], 0);
  read_damaged(read_all, t.at, t.length);
  read_without_memory(read_all, t.at, t.length);
  no_decompressor = true;
  assert_int_equal(read_exact(read_all, t.at, t.length), TD_NO_RESOURCE);
  no_decompressor = false;
  base_text_free(&t);
  for (uint64_t claim = 4999; claim <= 5001; claim += 2) {
    h.bytes = claim;
    t = build(&h, packed, size);
    assert_int_equal(read_exact(read_all, t.at, t.length), TD_BAD_FILE);
    base_text_free(&t);
  }
  h.bytes = 5000;
  h.packed = size + 1; /* a byte more than the stream has */
  t = build(&h, packed, size + 1);
  assert_int_equal(read_exact(read_all, t.at, t.length), TD_BAD_FILE);
  base_text_free(&t);
}

static void refuses(const handmade *h, td_status want, const char *text) {
  td_error err = {0};
  static const char data[256] = "abc";
  base_text t = build(h, data, h->copies > 2 ? sizeof data : 3);
  assert_int_equal(read_all(&base_libc_allocator, (const uint8_t *)t.at, t.length, &err), want);
  if (!strstr(err.text, text)) fail_msg("says \"%s\", not \"%s\"", err.text, text);
  base_text_free(&t);
}

static void lies(void **state) {
  (void)state;
  refuses(&(handmade){.packed = 30, .bytes = 30, .copies = 1}, TD_BAD_FILE, "outside");
  refuses(&(handmade){.packed = 3, .bytes = 4, .copies = 1}, TD_BAD_FILE, "two sizes");
  refuses(&(handmade){.packed = UINT64_MAX, .bytes = UINT64_MAX, .zip64 = true, .copies = 1}, TD_BAD_FILE, "outside");
  refuses(&(handmade){.method = 8, .packed = 3, .bytes = INT64_MAX, .zip64 = true, .copies = 1}, TD_BAD_FILE,
          "deflate");
  refuses(&(handmade){.method = 12, .packed = 3, .bytes = 3, .copies = 1}, TD_UNSUPPORTED, "method 12");
  refuses(&(handmade){.packed = 3, .bytes = 3, .copies = 2, .same_name = true}, TD_BAD_FILE, "same name");
  refuses(&(handmade){.packed = 256, .bytes = 256, .copies = 100}, TD_BAD_FILE, "overlap");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(written_is_read),
      cmocka_unit_test(local_headers_are_not_believed),
      cmocka_unit_test(deflated_entries),
      cmocka_unit_test(lies),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
