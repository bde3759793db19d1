/* dynamic.c -- machine code from files. */
#include "sys/sys_priv.h"
#include "sys/code.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void *sys_code_open(const char *path, td_error *err) {
  void *code = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (code) return code;
  const char *why = dlerror();
  const size_t length = strlen(path);
  if (why && strncmp(why, path, length) == 0 && strncmp(why + length, ": ", 2) == 0)
    why += length + 2; /* named already */
  base_fail(err, TD_NO_RESOURCE, path, -1, "%s", why ? why : "the code cannot be loaded");
  return NULL;
}

/* A path of `file` that no other code that is loaded has: the linker takes what has the same name for the same code,
 * and numbers of files come again. The bits of its inode, which is nobody else's as long as the code lasts, stand in it
 * as
 * "./" and "/". */
static bool name_file(int file, char path[256]) {
  struct stat facts;
  if (fstat(file, &facts)) return false;
  char *end = path + sprintf(path, "/proc/self/fd/");
  for (uint64_t bits = facts.st_ino; bits; bits >>= 1) end += sprintf(end, "%s", bits & 1 ? "./" : "/");
  sprintf(end, "%d", file);
  return true;
}

void *sys_code_open_bytes(const void *bytes, size_t count, td_error *err) {
  const int file = memfd_create("treadle", MFD_CLOEXEC);
  char path[256];
  void *code = NULL;
  if (file >= 0 && sys_write_all(file, bytes, count) == 0 && name_file(file, path)) {
    code = sys_code_open(path, err);
  } else {
    base_fail(err, TD_NO_RESOURCE, NULL, -1, "code from a saved plan: %s", strerror(errno));
  }
  if (file >= 0) close(file);
  return code;
}

void *sys_code_find(void *code, const char *name) { return dlsym(code, name); }

size_t sys_code_bytes(const void *function) {
  Dl_info file;
  void *symbol = NULL;
  if (!dladdr1(function, &file, &symbol, RTLD_DL_SYMENT) || !symbol) return 0;
  return ((const ElfW(Sym) *)symbol)->st_size;
}

void sys_code_close(void *code) { dlclose(code); }
