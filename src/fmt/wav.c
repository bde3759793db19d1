/* wav.c -- RIFF WAVE: a list of chunks {4 letters, u32 bytes, data, padded to even}. "fmt " says how "data" is to be
 * read and stands before it. */
#include "fmt/wav.h"
#include "fmt/bytes_priv.h"

enum { FORM_PCM = 1, FORM_FLOAT = 3, FORM_EXTENSIBLE = 0xfffe, MOST_CHANNELS = 1024 };

static double from_u8(const uint8_t *p) { return (p[0] - 128) / 128.0; }
static double from_i16(const uint8_t *p) { return (int16_t)fmt_le16(p) / 32768.0; }
static double from_i24(const uint8_t *p) {
  return (int32_t)((uint32_t)fmt_le16(p) << 8 | (uint32_t)p[2] << 24) / 2147483648.0;
}
static double from_i32(const uint8_t *p) { return (int32_t)fmt_le32(p) / 2147483648.0; }
static double from_f32(const uint8_t *p) { return *(const base_f32 *)p; }
static double from_f64(const uint8_t *p) { return *(const base_f64 *)p; }

typedef struct sample_row {
  uint16_t form, bits;
  double (*read)(const uint8_t *p);
} sample_row;

static const sample_row sample_rows[] = {
    {FORM_PCM, 8, from_u8},   {FORM_PCM, 16, from_i16},   {FORM_PCM, 24, from_i24},
    {FORM_PCM, 32, from_i32}, {FORM_FLOAT, 32, from_f32}, {FORM_FLOAT, 64, from_f64},
};

typedef struct sound {
  const sample_row *sample; /* NULL: no "fmt " chunk yet */
  uint16_t channels;
  uint32_t rate;
} sound;

typedef struct chunk {
  base_str id;
  const uint8_t *at;
  uint64_t length; /* as the file says */
  size_t offset;   /* of the data in the file */
} chunk;

static td_status read_format(const chunk *c, sound *s, td_error *err) {
  if (c->length < 16)
    return base_fail(err, TD_BAD_FILE, NULL, (int64_t)c->offset, "the fmt chunk has %llu of 16 bytes",
                     (unsigned long long)c->length);
  uint16_t form = fmt_le16(c->at), align = fmt_le16(c->at + 12), bits = fmt_le16(c->at + 14);
  s->channels = fmt_le16(c->at + 2);
  s->rate = fmt_le32(c->at + 4);
  if (form == FORM_EXTENSIBLE && c->length >= 26) form = fmt_le16(c->at + 24); /* the sub-format's first bytes */
  for (size_t i = 0; i < sizeof sample_rows / sizeof *sample_rows; i++)
    if (sample_rows[i].form == form && sample_rows[i].bits == bits) s->sample = &sample_rows[i];
  if (!s->sample)
    return base_fail(err, TD_UNSUPPORTED, NULL, (int64_t)c->offset,
                     "sound of form %u with %u bits cannot be read; convert it to 16-bit PCM", form, bits);
  if (s->channels < 1 || s->channels > MOST_CHANNELS || s->rate == 0 || align != s->channels * (bits / 8))
    return base_fail(err, TD_BAD_FILE, NULL, (int64_t)c->offset,
                     "%u channels at %u Hz in frames of %u bytes make no sense", s->channels, s->rate, align);
  return TD_OK;
}

static td_status read_samples(base_arena *arena, const chunk *c, size_t bytes, const sound *s, base_tensor *out,
                              td_error *err) {
  if (!s->sample) return base_fail(err, TD_BAD_FILE, NULL, (int64_t)c->offset, "the samples come before their format");
  size_t each = s->sample->bits / 8u, frames = bytes / (each * s->channels);
  float *values = base_new(arena, float, frames * s->channels + 1);
  if (!values) return base_no_memory(err, "a sound");
  for (size_t channel = 0; channel < s->channels; channel++)
    for (size_t i = 0; i < frames; i++)
      values[channel * frames + i] = (float)s->sample->read(c->at + (i * s->channels + channel) * each);
  *out = base_tensor_of(values, TD_F32, 2, (const int64_t[]){s->channels, (int64_t)frames});
  return TD_OK;
}

td_status fmt_wav_read(base_arena *arena, const void *bytes, size_t size, base_tensor *samples, int64_t *rate,
                       td_error *err) {
  const uint8_t *file = bytes;
  sound s = {0};
  if (size < 12 || memcmp(file, "RIFF", 4) != 0 || memcmp(file + 8, "WAVE", 4) != 0)
    return base_fail(err, TD_BAD_FILE, NULL, 0, "is not a WAVE file");
  size_t at = 12;
  while (size - at >= 8) {
    chunk c = {
        .id = {(const char *)file + at, 4}, .at = file + at + 8, .length = fmt_le32(file + at + 4), .offset = at + 8};
    size_t left = size - c.offset, there = c.length < left ? (size_t)c.length : left;
    if (base_str_is(c.id, "data")) {
      *rate = s.rate;
      return read_samples(arena, &c, there, &s, samples, err);
    }
    if (c.length > left) break;
    if (base_str_is(c.id, "fmt ")) TRY(read_format(&c, &s, err));
    at = c.offset + there;
    at += at < size && there % 2;
  }
  return base_fail(err, TD_BAD_FILE, NULL, (int64_t)at, "the file ends before its samples");
}
