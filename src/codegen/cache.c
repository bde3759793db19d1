/* cache.c -- objects by content. A file is named by all that went into it, is renamed into place when it is whole, and
 * ends in its name and a digest of what stands before: a file that was damaged, cut off, renamed, or was never ours, is
 * built anew. ELF takes no notice of what follows its sections. */
#include "codegen/codegen_priv.h"
#include "base/digest.h"
#include "sys/code.h"
#include "sys/sys.h"

#include <string.h>

enum { CACHE_MIB = 64 };
static const char seal[] = "treadle2";
enum { NAME_BYTES = 32, SEAL_BYTES = NAME_BYTES + sizeof seal - 1 + BASE_DIGEST_BYTES };

/* What follows the object of a unit: the name, the seal, and a digest of all that stands before it. */
static void write_seal(char *all, size_t size, const char *stem) {
  char *end = all + size;
  memcpy(end, strrchr(stem, '/') + 1, NAME_BYTES);
  memcpy(end + NAME_BYTES, seal, sizeof seal - 1);
  base_digest(all, size + NAME_BYTES, (uint8_t *)end + NAME_BYTES + sizeof seal - 1);
}

char *codegen_stem(const codegen_unit *unit, const codegen_means *means) {
  const codegen_setting *setting = means->setting;
  const char *const *options = means->options;
  base_text all = {.allocator = base_arena_allocator(means->arena)};
  uint8_t digest[BASE_DIGEST_BYTES];
  char name[BASE_DIGEST_TEXT];
  base_text_print(&all, "%s %llx", setting->cc, (unsigned long long)sys_file_stamp(setting->cc));
  for (uint32_t i = 0; options[i]; i++) base_text_print(&all, " %s", options[i]);
  base_text_add(&all, "\n", 1);
  base_text_add(&all, unit->text.at, unit->text.length);
  if (all.failed) {
    base_text_free(&all);
    return NULL;
  }
  base_digest(all.at, all.length, digest);
  base_digest_text(digest, name);
  name[NAME_BYTES] = '\0';
  base_text_free(&all);
  return base_arena_format(means->arena, "%s/%s", setting->cache, name);
}

/* `object`: gets a copy of what is sealed; NULL: it is not wanted. */
static bool is_sealed(const char *path, const char *stem, base_arena *arena, codegen_object *object) {
  sys_mapping file;
  td_error unused;
  uint8_t digest[BASE_DIGEST_BYTES];
  if (!sys_is_private_file(path) || sys_file_map(path, &file, &unused) != TD_OK) return false;
  bool good = file.size > SEAL_BYTES;
  if (good) {
    const size_t size = file.size - SEAL_BYTES;
    const char *name = (const char *)file.bytes + size, *mark = name + NAME_BYTES, *end = mark + sizeof seal - 1;
    base_digest(file.bytes, size + NAME_BYTES, digest);
    good = memcmp(name, strrchr(stem, '/') + 1, NAME_BYTES) == 0 && memcmp(mark, seal, sizeof seal - 1) == 0 &&
           memcmp(end, digest, sizeof digest) == 0;
    if (good && object) *object = (codegen_object){base_arena_copy(arena, file.bytes, size), size};
  }
  sys_unmap(&file);
  return good && (!object || object->bytes);
}

void codegen_find(codegen_unit *u, const codegen_means *means) {
  td_error unused;
  const char *path = base_arena_format(means->arena, "%s.so", u->stem);
  const bool good = path && is_sealed(path, u->stem, means->arena, means->setting->keep ? &u->object : NULL);
  u->code = good ? sys_code_open(path, &unused) : NULL;
}

td_status codegen_publish(const char *made, const char *stem, base_arena *arena, td_error *err) {
  sys_mapping file;
  const char *path = base_arena_format(arena, "%s.so", stem);
  TRY(sys_file_map(made, &file, err));
  const size_t size = file.size;
  char *all = path ? base_arena_alloc(arena, size + SEAL_BYTES) : NULL;
  if (all) {
    memcpy(all, file.bytes, size);
    write_seal(all, size, stem);
  }
  sys_unmap(&file);
  if (!all) return base_no_memory(err, "code");
  sys_remove(made);
  TRY(sys_write_file(made, all, size + SEAL_BYTES, err));
  TRY(sys_rename(made, path, err));
  const char *end = strrchr(path, '/');
  const char *folder = base_arena_slice(arena, path, (size_t)(end - path));
  if (folder) sys_trim_folder(folder, (uint64_t)CACHE_MIB << 20);
  return TD_OK;
}
