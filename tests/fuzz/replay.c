/* replay.c -- main for a fuzz target built without libFuzzer: feeds it every file of the folder or list that it is
 * given, so that any compiler and any build runs the checked-in corpus. */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
