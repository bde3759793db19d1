/* bundle.h -- archives of models: `.mar` (zip), `.tar.gz`, or a folder with the same files. */
#ifndef SERVE_BUNDLE_H
#define SERVE_BUNDLE_H
#include "fmt/zip.h"
#include "server.h"

bool bundle_is_archive(const char *path); /* by its ending, or by the manifest in a folder */
/* Whatever kind it is, as a zip; lives as long as v->arena and v->archive. */
td_status bundle_open(serve_version *v, const char *path, fmt_zip *zip, td_error *err);

enum { BUNDLE_LARGE = 1 << 20 };
/* The bytes in a mapped file of their own (aside.c). False: they are fewer than BUNDLE_LARGE, or there is no room for
 * them but memory. */
bool bundle_set_aside(const void *bytes, size_t size, sys_mapping *mapping);
/* The files of a tar, out of the one folder that they may lie in. */
td_status bundle_add_tar(fmt_zip_writer *zip, base_str tar, base_arena *arena, td_error *err);
#endif
