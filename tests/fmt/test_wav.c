/* Sound: each sample form gives the values that went in, hostile files give errors. */
#include "check.h"

/* A file of 44 bytes and the data. */
static size_t make_wav(uint8_t *file, uint16_t form, uint16_t channels, uint16_t bits, const void *data,
                       uint32_t bytes) {
  uint16_t align = (uint16_t)(channels * bits / 8);
  uint32_t riff = 36 + bytes, sixteen = 16, rate = 16000, per_second = rate * align;
  memcpy(file, "RIFF....WAVEfmt ", 16);
  memcpy(file + 4, &riff, 4);
  memcpy(file + 16, &sixteen, 4);
  memcpy(file + 20, &form, 2);
  memcpy(file + 22, &channels, 2);
  memcpy(file + 24, &rate, 4);
  memcpy(file + 28, &per_second, 4);
  memcpy(file + 32, &align, 2);
  memcpy(file + 34, &bits, 2);
  memcpy(file + 36, "data", 4);
  memcpy(file + 40, &bytes, 4);
  memcpy(file + 44, data, bytes);
  return 44 + (size_t)bytes;
}

static void every_form_is_scaled(void **state) {
  (void)state;
  const double half = 0.5;
  const float loud = -1.5f;
  const struct {
    uint16_t form, bits;
    uint8_t data[8];
    float value;
  } cases[] = {
      {1, 8, {0}, -1},
      {1, 8, {192}, 0.5f},
      {1, 16, {0, 0x80}, -1},
      {1, 16, {0, 0x40}, 0.5f},
      {1, 24, {0, 0, 0x80}, -1},
      {1, 24, {0, 0, 0x20}, 0.25f},
      {1, 24, {1, 0, 0}, 1.0f / 8388608},
      {1, 32, {0, 0, 0, 0xc0}, -0.5f},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases + 2; i++) {
    uint8_t file[64];
    base_arena *arena = base_arena_new(&base_libc_allocator);
    base_tensor samples;
    int64_t rate;
    bool integer = i < sizeof cases / sizeof *cases;
    bool wide = i == sizeof cases / sizeof *cases;
    size_t size = integer ? make_wav(file, cases[i].form, 1, cases[i].bits, cases[i].data, cases[i].bits / 8u)
                          : make_wav(file, 3, 1, wide ? 64 : 32, wide ? (const void *)&half : &loud, wide ? 8 : 4);
    assert_int_equal(fmt_wav_read(arena, file, size, &samples, &rate, NULL), TD_OK);
    assert_int_equal(rate, 16000);
    assert_int_equal(base_tensor_numel(&samples), 1);
    assert_true(*(const float *)samples.data == (integer ? cases[i].value : wide ? 0.5f : -1.5f));
    base_arena_free(arena);
  }
}

static void channels_are_taken_apart(void **state) {
  (void)state;
  const int16_t data[] = {1 << 8, 2 << 8, 3 << 8, 4 << 8, 5 << 8, 6 << 8};
  uint8_t file[64];
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_tensor samples;
  int64_t rate;
  size_t size = make_wav(file, 1, 2, 16, data, sizeof data);
  assert_int_equal(fmt_wav_read(arena, file, size, &samples, &rate, NULL), TD_OK);
  assert_int_equal(samples.dims[0], 2);
  assert_int_equal(samples.dims[1], 3);
  const float wanted[] = {1, 3, 5, 2, 4, 6};
  for (int i = 0; i < 6; i++) assert_true(((const float *)samples.data)[i] * 128 == wanted[i]);
  /* A length that the writer never filled in: to the end of the file, whole frames. */
  memset(file + 40, 0xff, 4);
  assert_int_equal(fmt_wav_read(arena, file, size - 1, &samples, &rate, NULL), TD_OK);
  assert_int_equal(samples.dims[1], 2);
  base_arena_free(arena);
}

static void other_chunks_are_passed(void **state) {
  (void)state;
  uint8_t plain[64], file[96];
  size_t size = make_wav(plain, 1, 1, 8, "\x80", 1);
  memcpy(file, plain, 12);
  memcpy(file + 12, "LIST\3\0\0\0abc\0", 12); /* padded to even */
  memcpy(file + 24, plain + 12, size - 12);
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_tensor samples;
  int64_t rate;
  assert_int_equal(fmt_wav_read(arena, file, size + 12, &samples, &rate, NULL), TD_OK);
  assert_int_equal(base_tensor_numel(&samples), 1);
  base_arena_free(arena);
}

static td_status read_wav(const td_allocator *allocator, const uint8_t *bytes, size_t size, td_error *err) {
  base_arena *arena = base_arena_new(allocator);
  if (!arena) return base_no_memory(err, "an arena");
  base_tensor samples;
  int64_t rate;
  td_status status = fmt_wav_read(arena, bytes, size, &samples, &rate, err);
  base_arena_free(arena);
  return status;
}

static void what_cannot_be_read_is_refused(void **state) {
  (void)state;
  uint8_t file[64];
  size_t size = make_wav(file, 1, 1, 16, "\1\2\3\4", 4);
  assert_int_equal(read_exact(read_wav, file, 11), TD_BAD_FILE);
  assert_int_equal(read_exact(read_wav, file, 40), TD_BAD_FILE);
  make_wav(file, 2, 1, 4, "", 0); /* ADPCM */
  assert_int_equal(read_exact(read_wav, file, 44), TD_UNSUPPORTED);
  make_wav(file, 1, 0, 16, "", 0);
  assert_int_equal(read_exact(read_wav, file, 44), TD_BAD_FILE);
  size = make_wav(file, 1, 1, 16, "\1\2\3\4", 4);
  memcpy(file + 12, "junk", 4); /* no format */
  assert_int_equal(read_exact(read_wav, file, size), TD_BAD_FILE);
  make_wav(file, 1, 2, 16, "\1\2\3\4", 4);
  read_damaged(read_wav, file, size);
  read_without_memory(read_wav, file, size);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_form_is_scaled),
      cmocka_unit_test(channels_are_taken_apart),
      cmocka_unit_test(other_chunks_are_passed),
      cmocka_unit_test(what_cannot_be_read_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
