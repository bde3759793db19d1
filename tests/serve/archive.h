/* archive.h -- archives of models as torch-model-archiver writes them, for the tests of the server. */
#ifndef TESTS_SERVE_ARCHIVE_H
#define TESTS_SERVE_ARCHIVE_H
#include "fmt/zip.h"
#include "serve/client.h"

typedef struct archived {
  const char *name, *text;
} archived;

/* Files until one without a name, as an archive in the test's folder. */
static void write_archive(const fixture *f, const char *name, const archived *files) {
  base_text text = {.allocator = &base_libc_allocator};
  fmt_zip_writer zip = {.out = &text, .directory = {.allocator = &base_libc_allocator}};
  for (const archived *a = files; a->name; a++)
    assert_int_equal(fmt_zip_add(&zip, a->name, a->text, strlen(a->text), NULL), TD_OK);
  assert_int_equal(fmt_zip_finish(&zip, NULL), TD_OK);
  write_bytes(f, name, text.at, text.length);
  base_text_free(&text);
}
#endif
