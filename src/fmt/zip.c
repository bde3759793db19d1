/* zip.c -- the directory is read from the end of the file and believed over the local headers; ZIP64 where it is there.
 */
#include "fmt/zip.h"

#include <libdeflate.h>

#include "fmt/bytes_priv.h"

/* Fixed parts of the records, and how much deflate can shrink (zlib's documentation: 1032:1). */
enum { LOCAL_BYTES = 30, ENTRY_BYTES = 46, END_BYTES = 22, LOCATOR_BYTES = 20, END64_BYTES = 56, DEFLATE_RATIO = 1032 };
enum {
  LOCAL_MARK = 0x04034b50,
  ENTRY_MARK = 0x02014b50,
  END_MARK = 0x06054b50,
  LOCATOR_MARK = 0x07064b50,
  END64_MARK = 0x06064b50
};
enum { STORED = 0, DEFLATED = 8, DATA_ALIGN = 64, FLAG_ENCRYPTED = 1, FLAG_UTF8 = 1 << 11, PAD_ID = 0x4246 };

static td_status bad_zip(td_error *err, uint64_t offset, const char *what) {
  return base_fail(err, TD_BAD_FILE, NULL, (int64_t)offset, "the zip archive is damaged: %s", what);
}

bool fmt_zip_sniff(const void *bytes, size_t size) {
  return size >= END_BYTES + LOCAL_BYTES && fmt_le32(bytes) == LOCAL_MARK;
}

/* ---- the directory ----------------------------------------------------------------------------------------------- */

typedef struct directory {
  uint64_t offset, bytes, count;
} directory;

/* Offset of the end record: the last place from which a comment reaches exactly to the end of the file. */
static bool find_end(const uint8_t *file, size_t size, size_t *end) {
  for (size_t comment = 0; comment <= UINT16_MAX && comment + END_BYTES <= size; comment++) {
    size_t at = size - END_BYTES - comment;
    if (fmt_le32(file + at) == END_MARK && fmt_le16(file + at + 20) == comment) {
      *end = at;
      return true;
    }
  }
  return false;
}

static td_status find_directory(const uint8_t *file, size_t size, directory *d, td_error *err) {
  size_t end;
  if (!find_end(file, size, &end)) return bad_zip(err, size, "it has no end record; is the file complete?");
  const uint8_t *e = file + end;
  if (fmt_le16(e + 4) != 0 || fmt_le16(e + 8) != fmt_le16(e + 10)) return bad_zip(err, end, "it spans several disks");
  *d = (directory){.offset = fmt_le32(e + 16), .bytes = fmt_le32(e + 12), .count = fmt_le16(e + 10)};
  uint64_t limit = end;
  if (end >= LOCATOR_BYTES && fmt_le32(e - LOCATOR_BYTES) == LOCATOR_MARK) {
    uint64_t at = fmt_le64(e - LOCATOR_BYTES + 8);
    if (!base_in_range(at, END64_BYTES, end - LOCATOR_BYTES) || fmt_le32(file + at) != END64_MARK)
      return bad_zip(err, end - LOCATOR_BYTES, "its ZIP64 end record is not where it should be");
    *d = (directory){
        .offset = fmt_le64(file + at + 48), .bytes = fmt_le64(file + at + 40), .count = fmt_le64(file + at + 32)};
    limit = at;
  }
  if (!base_in_range(d->offset, d->bytes, limit)) return bad_zip(err, end, "its directory lies outside of the file");
  if (d->count > d->bytes / ENTRY_BYTES)
    return bad_zip(err, end, "its directory claims more entries than it has room for");
  if (d->count > UINT32_MAX / 4) return bad_zip(err, end, "it has too many entries");
  return TD_OK;
}

base_str fmt_zip_directory(const void *bytes, size_t size) {
  directory d = {0, 0, 0};
  if (!fmt_zip_sniff(bytes, size) || find_directory(bytes, size, &d, NULL) != TD_OK) return (base_str){"", 0};
  return (base_str){(const char *)bytes + d.offset, (size_t)d.bytes};
}

/* Takes the 64-bit values from the extra field with id 1: those, in this order, whose 32-bit field is all ones. */
static bool read_zip64(const uint8_t *extra, size_t length, fmt_zip_entry *e) {
  uint64_t *wanted[] = {&e->bytes, &e->packed, &e->local};
  while (length >= 4) {
    size_t field = fmt_le16(extra + 2);
    if (field > length - 4) return false;
    if (fmt_le16(extra) == 1) {
      const uint8_t *at = extra + 4, *end = at + field;
      for (int i = 0; i < 3; i++) {
        if (*wanted[i] != UINT32_MAX) continue;
        if (end - at < 8) return false;
        *wanted[i] = fmt_le64(at);
        at += 8;
      }
      return true;
    }
    extra += 4 + field;
    length -= 4 + field;
  }
  return e->bytes != UINT32_MAX && e->packed != UINT32_MAX && e->local != UINT32_MAX;
}

/* The entry at *at inside the directory that ends at `end`; advances *at. */
static td_status read_entry(const fmt_zip *zip, uint64_t *at, uint64_t end, fmt_zip_entry *e, td_error *err) {
  const uint8_t *p = zip->file + *at;
  if (end - *at < ENTRY_BYTES || fmt_le32(p) != ENTRY_MARK) return bad_zip(err, *at, "a directory entry is missing");
  uint64_t name = fmt_le16(p + 28), extra = fmt_le16(p + 30), comment = fmt_le16(p + 32);
  if (name + extra + comment > end - *at - ENTRY_BYTES) return bad_zip(err, *at, "a directory entry is cut off");
  *e = (fmt_zip_entry){.name = {(const char *)p + ENTRY_BYTES, name},
                       .method = fmt_le16(p + 10),
                       .encrypted = fmt_le16(p + 8) & FLAG_ENCRYPTED,
                       .packed = fmt_le32(p + 20),
                       .bytes = fmt_le32(p + 24),
                       .local = fmt_le32(p + 42)};
  if (!read_zip64(p + ENTRY_BYTES + name, extra, e)) return bad_zip(err, *at, "an entry's ZIP64 field is damaged");
  if (!base_in_range(e->local, LOCAL_BYTES, zip->data_end) || e->packed > zip->data_end)
    return bad_zip(err, *at, "an entry's data lies outside of the file");
  if (e->method == STORED && e->bytes != e->packed) return bad_zip(err, *at, "a stored entry has two sizes");
  if (e->bytes / DEFLATE_RATIO > e->packed)
    return bad_zip(err, *at, "an entry claims more bytes than deflate can hold");
  *at += ENTRY_BYTES + name + extra + comment;
  return TD_OK;
}

static td_status read_entries(base_arena *arena, fmt_zip *zip, const directory *d, td_error *err) {
  uint64_t at = d->offset, packed = 0;
  for (uint32_t i = 0; i < zip->count; i++) {
    fmt_zip_entry *e = &zip->entries[i];
    uint64_t start = at;
    bool existed;
    TRY(read_entry(zip, &at, d->offset + d->bytes, e, err));
    packed += e->packed;
    if (packed > zip->size) return bad_zip(err, start, "its entries overlap");
    if (!base_map_put(&zip->by_name, arena, e->name, i, &existed)) return base_no_memory(err, "zip directory");
    if (existed) return bad_zip(err, start, "two entries have the same name");
  }
  return TD_OK;
}

td_status fmt_zip_open(base_arena *arena, const void *bytes, size_t size, fmt_zip *out, td_error *err) {
  directory d = {0, 0, 0};
  TRY(find_directory(bytes, size, &d, err));
  *out = (fmt_zip){.file = bytes, .size = size, .data_end = d.offset, .count = (uint32_t)d.count};
  out->entries = base_new(arena, fmt_zip_entry, out->count);
  if (!out->entries) return base_no_memory(err, "zip directory");
  return read_entries(arena, out, &d, err);
}

const fmt_zip_entry *fmt_zip_find(const fmt_zip *zip, base_str name) {
  const uint32_t *index = base_map_get(&zip->by_name, name);
  return index ? &zip->entries[*index] : NULL;
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

td_status fmt_inflate(const uint8_t *from, size_t packed, uint8_t *to, size_t bytes, td_error *err) {
  struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
  size_t used = 0;
  if (!d) return base_no_memory(err, "inflating");
  const enum libdeflate_result result = libdeflate_deflate_decompress_ex(d, from, packed, to, bytes, &used, NULL);
  libdeflate_free_decompressor(d);
  if (result != LIBDEFLATE_SUCCESS || used != packed)
    return base_fail(err, TD_BAD_FILE, NULL, -1, "deflated bytes do not fill their size");
  return TD_OK;
}

static td_status inflate_entry(base_arena *arena, const fmt_zip *zip, const fmt_zip_entry *e, uint64_t offset,
                               const uint8_t **data, td_error *err) {
  enum { ALIGN = 16 };
  uint8_t *to = base_arena_alloc_uncleared(arena, e->bytes, ALIGN);
  if (!to) return base_no_memory(err, "inflated zip entry");
  const td_status status = fmt_inflate(zip->file + offset, e->packed, to, e->bytes, NULL);
  if (status == TD_NO_RESOURCE) return base_no_memory(err, "inflating a zip entry");
  if (status != TD_OK) return bad_zip(err, offset, "an entry does not inflate to its size");
  *data = to;
  return TD_OK;
}

td_status fmt_zip_read(base_arena *arena, const fmt_zip *zip, const fmt_zip_entry *entry, const uint8_t **data,
                       td_error *err) {
  const uint8_t *local = zip->file + entry->local;
  if (fmt_le32(local) != LOCAL_MARK) return bad_zip(err, entry->local, "an entry's local header is missing");
  uint64_t start = entry->local + LOCAL_BYTES + fmt_le16(local + 26) + fmt_le16(local + 28);
  if (!base_in_range(start, entry->packed, zip->data_end))
    return bad_zip(err, entry->local, "an entry's data lies outside of the file");
  if (entry->encrypted)
    return base_fail(err, TD_UNSUPPORTED, NULL, (int64_t)entry->local, "the zip archive is encrypted");
  *data = zip->file + start;
  if (entry->method == STORED) return TD_OK;
  if (entry->method == DEFLATED) return inflate_entry(arena, zip, entry, start, data, err);
  return base_fail(err, TD_UNSUPPORTED, NULL, (int64_t)entry->local,
                   "a zip entry is packed with method %u; only stored and deflated ones are read", entry->method);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void put16(base_text *out, uint32_t value) {
  char bytes[2] = {(char)value, (char)(value >> 8)};
  base_text_add(out, bytes, sizeof bytes);
}

static void put32(base_text *out, uint32_t value) {
  put16(out, value & 0xffff);
  put16(out, value >> 16);
}

/* What local header and directory entry have in common: version to name length. Dates are 1980-01-01. */
static void put_common(base_text *out, uint32_t crc, uint32_t bytes, size_t name) {
  put16(out, 20);
  put16(out, FLAG_UTF8);
  put16(out, STORED);
  put16(out, 0);
  put16(out, 33);
  put32(out, crc);
  put32(out, bytes);
  put32(out, bytes);
  put16(out, (uint32_t)name);
}

td_status fmt_zip_add(fmt_zip_writer *w, const char *name, const void *bytes, size_t size, td_error *err) {
  size_t length = strlen(name), local = w->out->length, before = LOCAL_BYTES + length + 4;
  if (w->count == UINT16_MAX || length > 1024 || size > UINT32_MAX / 2 || local > UINT32_MAX / 2)
    return base_fail(err, TD_UNSUPPORTED, name, -1, "the archive would need ZIP64, which is not written");
  size_t pad = (DATA_ALIGN - (local + before) % DATA_ALIGN) % DATA_ALIGN;
  uint32_t crc = size ? libdeflate_crc32(0, bytes, size) : 0;
  put32(w->out, LOCAL_MARK);
  put_common(w->out, crc, (uint32_t)size, length);
  put16(w->out, (uint32_t)(4 + pad));
  base_text_add(w->out, name, length);
  put16(w->out, PAD_ID);
  put16(w->out, (uint32_t)pad);
  base_text_print(w->out, "%*s", (int)pad, "");
  base_text_add(w->out, bytes, size);

  put32(&w->directory, ENTRY_MARK);
  put16(&w->directory, 20);
  put_common(&w->directory, crc, (uint32_t)size, length);
  put16(&w->directory, 0); /* extra */
  put16(&w->directory, 0); /* comment */
  put16(&w->directory, 0); /* disk */
  put16(&w->directory, 0); /* attributes */
  put32(&w->directory, 0);
  put32(&w->directory, (uint32_t)local);
  base_text_add(&w->directory, name, length);
  w->count++;
  return TD_OK;
}

td_status fmt_zip_finish(fmt_zip_writer *w, td_error *err) {
  size_t offset = w->out->length, bytes = w->directory.length;
  base_text_add(w->out, w->directory.at, bytes);
  put32(w->out, END_MARK);
  put32(w->out, 0); /* disks */
  put16(w->out, w->count);
  put16(w->out, w->count);
  put32(w->out, (uint32_t)bytes);
  put32(w->out, (uint32_t)offset);
  put16(w->out, 0);
  bool failed = w->out->failed || w->directory.failed;
  base_text_free(&w->directory);
  if (failed) return base_no_memory(err, "zip archive");
  if (offset > UINT32_MAX) return base_fail(err, TD_UNSUPPORTED, NULL, -1, "the archive is larger than 4 GiB");
  return TD_OK;
}
