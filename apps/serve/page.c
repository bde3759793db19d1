/* page.c -- the page at the management address: one document that asks this address alone. Its script and its style are
 * named by their hashes, so that a browser runs nothing else on it, whatever the names of models are. */
#include <openssl/evp.h>
#include <string.h>

#include "fmt/zip.h"
#include "serve_page.inc" /* page.html, deflated: packed_page of PAGE_BYTES */
#include "server.h"

enum { HASH_BYTES = 32, HASH_TEXT = 45 };

/* The SHA-256 in base64 of what stands between the two. */
static bool hash_between(const char *page, const char *begin, const char *end, char hash[HASH_TEXT]) {
  unsigned char bytes[HASH_BYTES];
  const char *from = strstr(page, begin), *to = from ? strstr(from, end) : NULL;
  if (!to) return false;
  from += strlen(begin);
  if (EVP_Digest(from, (size_t)(to - from), bytes, NULL, EVP_sha256(), NULL) != 1) return false;
  return EVP_EncodeBlock((unsigned char *)hash, bytes, HASH_BYTES) == HASH_TEXT - 1;
}

bool serve_page(serve_job *job, char **parts) {
  (void)parts;
  td_error err = {.offset = -1};
  char script[HASH_TEXT], style[HASH_TEXT];
  char *page = base_arena_alloc(job->arena, PAGE_BYTES + 1);
  if (!page || fmt_inflate(packed_page, sizeof packed_page, (uint8_t *)page, PAGE_BYTES, &err) != TD_OK) {
    serve_refuse(job, 507, "out of memory");
    return true;
  }
  page[PAGE_BYTES] = '\0';
  if (hash_between(page, "<script>", "</script>", script) && hash_between(page, "<style>", "</style>", style))
    job->policy = base_arena_format(
        job->arena,
        "default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; connect-src 'self'; img-src blob: data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
        script, style);
  if (!job->policy) { /* without one it does not go out */
    serve_refuse(job, 507, "out of memory");
    return true;
  }
  base_text_add(&job->reply, page, PAGE_BYTES);
  job->status = 200;
  job->type = "text/html; charset=utf-8";
  return true;
}
