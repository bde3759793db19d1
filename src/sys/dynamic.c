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

void *sys_code_open_bytes(const void *bytes, size_t count, td_error *err) {
  const int file = memfd_create("treadle", MFD_CLOEXEC);
  char path[64];
  void *code = NULL;
  if (file >= 0 && sys_write_all(file, bytes, count) == 0) {
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
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
