/* dynamic.c -- machine code from files. */
#include "sys/code.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

void *sys_code_open(const char *path, td_error *err) {
  void *code = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (code) return code;
  const char *why = dlerror();
  base_fail(err, TD_NO_RESOURCE, path, -1, "%s", why ? why : "the code cannot be loaded");
  return NULL;
}

void *sys_code_find(void *code, const char *name) { return dlsym(code, name); }

size_t sys_code_bytes(const void *function) {
  Dl_info file;
  void *symbol = NULL;
  if (!dladdr1(function, &file, &symbol, RTLD_DL_SYMENT) || !symbol) return 0;
  return ((const ElfW(Sym) *)symbol)->st_size;
}

void sys_code_close(void *code) { dlclose(code); }
