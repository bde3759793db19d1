/* aside.c -- what an archive was inflated to, in a file without a name in the folder of serve_temporary. A loaded model
 * has packed most of its weights: what it reads of the others comes from the file, so the rest is out of memory, as
 * with a file that was mapped. */
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "bundle.h"

/* A file system in memory would only move them. */
static bool is_on_disk(int file) {
  struct statfs about;
  return fstatfs(file, &about) == 0 && (uint32_t)about.f_type != TMPFS_MAGIC && (uint32_t)about.f_type != RAMFS_MAGIC;
}

bool bundle_set_aside(const void *bytes, size_t size, sys_mapping *mapping) {
  const int file = size < BUNDLE_LARGE ? -1 : open(serve_temporary(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return false;
  void *at = is_on_disk(file) && serve_write_all(file, bytes, size) ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0)
                                                                    : MAP_FAILED;
  close(file);
  if (at == MAP_FAILED) return false;
  *mapping = (sys_mapping){at, size};
  return true;
}
