/* replay.c -- main for a fuzz target built without libFuzzer: feeds it every file of the folder or list that it is
 * given, so that any compiler and any build runs the checked-in corpus. Targets that change numbers (change_numbers.h)
 * get each file with changed ones, too, the same each time. */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CHANGES = 600, GROWTH = 256 }; /* of a file; bytes by which a change makes it longer at most */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* libFuzzer's own changes: none. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) {
  (void)data, (void)max_size;
  return size;
}

static int replay_changed(const uint8_t *data, size_t size) {
  for (unsigned int i = 0; LLVMFuzzerCustomMutator && i < CHANGES; i++) {
    uint8_t *changed = malloc(size + GROWTH);
    if (!changed) return 1;
    memcpy(changed, data, size);
    const size_t length = LLVMFuzzerCustomMutator(changed, size, size + GROWTH, 2 * i);
    uint8_t *exact = realloc(changed, length ? length : 1); /* as in replay_file */
    LLVMFuzzerTestOneInput(exact ? exact : changed, length);
    free(exact ? exact : changed);
  }
  return 0;
}

static int replay_file(const char *path) {
  FILE *file = fopen(path, "rb");
  struct stat info;
  if (!file || fstat(fileno(file), &info) != 0) {
    fprintf(stderr, "cannot read %s\n", path);
    if (file) fclose(file);
    return 1;
  }
  size_t size = (size_t)info.st_size;
  uint8_t *data = malloc(size ? size : 1); /* exactly as large as the input: a sanitizer sees any read past it */
  int failed = !data || fread(data, 1, size, file) != size;
  fclose(file);
  if (!failed) LLVMFuzzerTestOneInput(data, size);
  if (!failed) failed = replay_changed(data, size);
  free(data);
  return failed;
}

static int replay_folder(const char *path) {
  DIR *folder = opendir(path);
  if (!folder) return replay_file(path);
  int failed = 0;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    char name[4096];
    if (entry->d_name[0] == '.') continue;
    snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
    failed |= replay_file(name);
  }
  closedir(folder);
  return failed;
}

int main(int argc, char **argv) {
  int failed = argc < 2;
  for (int i = 1; i < argc; i++) failed |= replay_folder(argv[i]);
  return failed;
}
