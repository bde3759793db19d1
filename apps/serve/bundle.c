/* bundle.c -- archives that are no zip: `.tar.gz`, and folders, as torch-model-archiver writes them where it is asked.
 * Both become a zip of stored files in memory, so that all that reads archives has one kind of them. A tar may have its
 * files in one folder, which is left out; links and devices are refused. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "bundle.h"

enum { BLOCK = 512, NAME_BYTES = 100, SIZE_AT = 124, SIZE_BYTES = 12, KIND_AT = 156, PREFIX_AT = 345 };
enum { PREFIX_BYTES = 155, MOST_FILES = 20000, MOST_DEPTH = 8, PIECE = 1 << 16, GZIP = 15 + 16 };
enum { MOST_GROWTH = 32, SMALL = 1 << 20 }; /* a tar has so many times its packed bytes at most, and a little more */
static const char manifest[] = "MAR-INF/MANIFEST.json";

typedef struct member {
  char *name;
  base_str bytes;
} member;

typedef BASE_VEC(member) members;

static td_status damaged(td_error *err) {
  return base_fail(err, TD_BAD_FILE, NULL, -1, "the archive is no tar that can be read, or it is cut");
}

static bool read_octal(const char *at, uint64_t *value) {
  size_t digits = 0;
  while (digits < SIZE_BYTES && *at == ' ') at++, digits++;
  *value = 0;
  for (; digits < SIZE_BYTES && *at >= '0' && *at <= '7'; at++, digits++) *value = *value * 8 + (uint64_t)(*at - '0');
  return digits == SIZE_BYTES || *at == 0 || *at == ' ';
}

/* What a header's records of "LENGTH KEY=VALUE\n" say of the next file's name; at == NULL: nothing. */
static base_str path_of(base_str records) {
  base_str found = {NULL, 0};
  while (records.length) {
    size_t digits = 0, length = 0;
    for (; digits < records.length && digits < 9 && records.at[digits] >= '0' && records.at[digits] <= '9'; digits++)
      length = length * 10 + (size_t)(records.at[digits] - '0');
    if (length < digits + 2 || length > records.length || records.at[digits] != ' ') break;
    const base_str record = {records.at + digits + 1, length - digits - 2};
    const size_t key = strlen("path=");
    if (base_str_starts(record, "path=")) found = (base_str){record.at + key, record.length - key};
    records = (base_str){records.at + length, records.length - length};
  }
  return found;
}

static size_t length_of(const char *at, size_t most) {
  const char *end = memchr(at, 0, most);
  return end ? (size_t)(end - at) : most;
}

/* The name in the header; `given`: that of a header before it. NULL: out of memory. */
static char *name_of(base_arena *arena, const char *head, base_str given) {
  char *name;
  const size_t prefix = memcmp(head + 257, "ustar", 6) == 0 ? length_of(head + PREFIX_AT, PREFIX_BYTES) : 0;
  if (given.at) name = base_arena_slice(arena, given.at, length_of(given.at, given.length));
  else
    name = base_arena_format(arena, "%.*s%s%.*s", (int)prefix, head + PREFIX_AT, prefix ? "/" : "",
                             (int)length_of(head, NAME_BYTES), head);
  if (name && !strncmp(name, "./", 2)) name += 2;
  return name;
}

static td_status read_members(base_str tar, base_arena *arena, members *all, td_error *err) {
  base_str given = {NULL, 0};
  for (size_t at = 0; tar.length - at >= BLOCK && tar.at[at];) {
    const char *head = tar.at + at, kind = head[KIND_AT];
    uint64_t count;
    at += BLOCK;
    if (!read_octal(head + SIZE_AT, &count) || count > tar.length - at) return damaged(err);
    const base_str bytes = {tar.at + at, (size_t)count};
    const size_t padded = ((size_t)count + BLOCK - 1) / BLOCK * BLOCK;
    at += padded < tar.length - at ? padded : tar.length - at;
    if (kind == 'L' || kind == 'x') given = kind == 'L' ? bytes : path_of(bytes);
    if (kind == 'L' || kind == 'x' || kind == 'g') continue;
    char *name = name_of(arena, head, given);
    if (!name) return base_no_memory(err, "an archive");
    given = (base_str){NULL, 0};
    if (kind == '5') continue; /* a folder, which its files make */
    if (kind != '0' && kind) return base_fail(err, TD_BAD_FILE, NULL, -1, "the archive has a link or a device in it");
    if (all->count == MOST_FILES) return base_fail(err, TD_BAD_FILE, NULL, -1, "the archive has too many files");
    member *next = base_vec_push(arena, all);
    if (!next) return base_no_memory(err, "an archive");
    *next = (member){name, bytes};
  }
  return TD_OK;
}

/* Bytes of the name of the folder that the archive lies in; 0: in none. */
static size_t folder_of(const members *all) {
  for (uint32_t i = 0; i < all->count; i++) {
    const char *slash = strchr(all->at[i].name, '/');
    if (slash && strcmp(slash + 1, manifest) == 0) return (size_t)(slash + 1 - all->at[i].name);
  }
  return 0;
}

td_status bundle_add_tar(fmt_zip_writer *zip, base_str tar, base_arena *arena, td_error *err) {
  members all = {0};
  TRY(read_members(tar, arena, &all, err));
  const size_t folder = folder_of(&all);
  for (uint32_t i = 0; i < all.count; i++) {
    const char *name = all.at[i].name, *slash = strchr(name, '/');
    const bool is_within = folder && slash && (size_t)(slash + 1 - name) == folder;
    TRY(fmt_zip_add(zip, is_within ? slash + 1 : name, all.at[i].bytes.at, all.at[i].bytes.length, err));
  }
  return TD_OK;
}

static td_status unpack(const sys_mapping *file, base_text *out, td_error *err) {
  z_stream z = {.next_in = (Bytef *)(uintptr_t)file->bytes, .avail_in = (uInt)file->size};
  char piece[PIECE];
  int state = Z_OK;
  if (file->size > UINT32_MAX) return damaged(err);
  if (inflateInit2(&z, GZIP) != Z_OK) return base_no_memory(err, "an archive");
  while (state == Z_OK && !out->failed && out->length <= file->size * MOST_GROWTH + SMALL) {
    z.next_out = (Bytef *)piece;
    z.avail_out = sizeof piece;
    state = inflate(&z, Z_NO_FLUSH);
    base_text_add(out, piece, sizeof piece - z.avail_out);
  }
  inflateEnd(&z);
  if (out->failed) return base_no_memory(err, "an archive");
  return state == Z_STREAM_END ? TD_OK : damaged(err);
}

static td_status add_tar_gz(fmt_zip_writer *zip, const char *path, base_arena *arena, td_error *err) {
  base_text tar = {.allocator = &base_libc_allocator};
  sys_mapping file;
  TRY(sys_file_map(path, &file, err));
  td_status status = unpack(&file, &tar, err);
  sys_unmap(&file);
  if (status == TD_OK) status = bundle_add_tar(zip, (base_str){tar.at, tar.length}, arena, err);
  base_text_free(&tar);
  return status;
}

static td_status add_folder(fmt_zip_writer *zip, const char *path, const char *prefix, int depth, base_arena *arena,
                            td_error *err);

static td_status add_entry(fmt_zip_writer *zip, const char *path, const char *name, int depth, base_arena *arena,
                           td_error *err) {
  struct stat about;
  sys_mapping file;
  if (!path || !name) return base_no_memory(err, "an archive");
  if (lstat(path, &about) != 0) return base_fail(err, TD_BAD_FILE, name, -1, "cannot be read: %s", strerror(errno));
  if (S_ISDIR(about.st_mode))
    return add_folder(zip, path, base_arena_format(arena, "%s/", name), depth + 1, arena, err);
  if (!S_ISREG(about.st_mode)) return base_fail(err, TD_BAD_FILE, name, -1, "is a link or a device");
  if (!about.st_size) return fmt_zip_add(zip, name, "", 0, err);
  TRY(sys_file_map(path, &file, err));
  const td_status status = fmt_zip_add(zip, name, file.bytes, file.size, err);
  sys_unmap(&file);
  return status;
}

static td_status add_folder(fmt_zip_writer *zip, const char *path, const char *prefix, int depth, base_arena *arena,
                            td_error *err) {
  DIR *folder = prefix && depth <= MOST_DEPTH ? opendir(path) : NULL;
  td_status status = TD_OK;
  if (!folder) return base_fail(err, TD_BAD_FILE, NULL, -1, "a folder of the archive cannot be read, or is too deep");
  for (struct dirent *entry; status == TD_OK && (entry = readdir(folder));) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    status = add_entry(zip, base_arena_format(arena, "%s/%s", path, entry->d_name),
                       base_arena_format(arena, "%s%s", prefix, entry->d_name), depth, arena, err);
  }
  closedir(folder);
  return status;
}

static bool is_tar(const char *path) {
  return base_str_ends(base_str_of(path), ".tar.gz") || base_str_ends(base_str_of(path), ".tgz");
}

static bool is_folder(const char *path) {
  struct stat about;
  return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

bool bundle_is_archive(const char *path) {
  char file[4096];
  struct stat about;
  const int length = snprintf(file, sizeof file, "%s/%s", path, manifest);
  if (base_str_ends(base_str_of(path), ".mar") || is_tar(path)) return true;
  return length > 0 && (size_t)length < sizeof file && stat(file, &about) == 0;
}

/* The zip moves aside or into the arena, at a multiple of 64 bytes, as its files lie in it. */
static td_status keep(base_text *text, serve_version *v, fmt_zip *zip, td_error *err) {
  if (text->failed) return base_no_memory(err, "an archive");
  if (bundle_set_aside(text->at, text->length, &v->archive))
    return fmt_zip_open(v->arena, v->archive.bytes, v->archive.size, zip, err);
  char *bytes = base_arena_alloc_uncleared(v->arena, text->length + 1, 64);
  if (!bytes) return base_no_memory(err, "an archive");
  memcpy(bytes, text->at, text->length);
  return fmt_zip_open(v->arena, bytes, text->length, zip, err);
}

td_status bundle_open(serve_version *v, const char *path, fmt_zip *zip, td_error *err) {
  base_text text = {.allocator = &base_libc_allocator};
  fmt_zip_writer writer = {.out = &text, .directory = {.allocator = &base_libc_allocator}};
  const bool folder = is_folder(path);
  if (!folder && !is_tar(path)) {
    TRY(sys_file_map(path, &v->archive, err));
    return fmt_zip_open(v->arena, v->archive.bytes, v->archive.size, zip, err);
  }
  base_arena *names = base_arena_new(&base_libc_allocator);
  td_status status = names ? TD_OK : base_no_memory(err, "an archive");
  if (status == TD_OK)
    status = folder ? add_folder(&writer, path, "", 0, names, err) : add_tar_gz(&writer, path, names, err);
  if (status == TD_OK) status = fmt_zip_finish(&writer, err);
  else base_text_free(&writer.directory);
  if (status == TD_OK) status = keep(&text, v, zip, err);
  base_text_free(&text);
  base_arena_free(names);
  return status;
}
