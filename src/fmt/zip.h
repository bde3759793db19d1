/* zip.h -- zip archives in memory: the central directory, entries by name, a small writer.
 *
 * Only the central directory is believed: PyTorch's local headers hold zeros, so they are used for nothing but the
 * length of their name and extra field, behind which the data starts. Checksums are not checked: for stored entries
 * that would touch every weight at load, and PyTorch may leave them wrong.
 *
 * Memory: the directory takes at most 12 bytes per byte of file. Stored entries are views. A deflated entry takes its
 * stated size, which must be what deflate can make of its packed bytes (at most 1032 times as many); the packed bytes
 * of all entries together may not exceed the file, so overlapping entries cannot multiply. */
#ifndef FMT_ZIP_H
#define FMT_ZIP_H
#include "base/base.h"

typedef struct fmt_zip_entry {
  base_str name;   /* a view into the directory */
  uint32_t method; /* 0 stored, 8 deflated; others are refused when the entry is read */
  bool encrypted;
  uint64_t packed, bytes; /* in the file; when unpacked */
  uint64_t local;         /* offset of the local header */
} fmt_zip_entry;

typedef struct fmt_zip {
  const uint8_t *file;
  size_t size;
  uint64_t data_end;      /* where the directory starts: no data reaches beyond */
  fmt_zip_entry *entries; /* in the order of the directory */
  uint32_t count;
  base_map by_name;
} fmt_zip;

/* True when the bytes begin like a zip with at least one entry. */
bool fmt_zip_sniff(const void *bytes, size_t size);
/* The directory as it stands in the file, which holds the names of all entries; empty: there is none. */
base_str fmt_zip_directory(const void *bytes, size_t size);
/* Reads the directory. Names must be unique. ZIP64 is read; archives of several disks or with bytes before or after are
 * TD_BAD_FILE. */
td_status fmt_zip_open(base_arena *arena, const void *bytes, size_t size, fmt_zip *out, td_error *err);
/* NULL when there is none of that name. */
const fmt_zip_entry *fmt_zip_find(const fmt_zip *zip, base_str name);
/* The entry's bytes: a view when stored (any alignment), else inflated into the arena. entry->bytes many. */
td_status fmt_zip_read(base_arena *arena, const fmt_zip *zip, const fmt_zip_entry *entry, const uint8_t **data,
                       td_error *err);

/* Deflated bytes (RFC 1951, without a header) into `to`, which they fill exactly; else TD_BAD_FILE. */
td_status fmt_inflate(const uint8_t *from, size_t packed, uint8_t *to, size_t bytes, td_error *err);

/* Writes stored entries, each with its data at a multiple of 64 bytes. Start with {.out = text, .directory =
 * {.allocator = text->allocator}}; fmt_zip_finish also frees the directory. Up to 4 GiB and 65,535 entries, else
 * TD_UNSUPPORTED. */
typedef struct fmt_zip_writer {
  base_text *out; /* must be empty at the start */
  base_text directory;
  uint32_t count;
} fmt_zip_writer;
td_status fmt_zip_add(fmt_zip_writer *w, const char *name, const void *bytes, size_t size, td_error *err);
td_status fmt_zip_finish(fmt_zip_writer *w, td_error *err);
#endif
