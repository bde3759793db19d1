/* digest.h -- SHA-256 (FIPS 180-4), for names by content and for knowing bytes again. */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H
#include <stddef.h>
#include <stdint.h>

enum { BASE_DIGEST_BYTES = 32, BASE_DIGEST_TEXT = 2 * BASE_DIGEST_BYTES + 1 };

void base_digest(const void *bytes, size_t count, uint8_t digest[BASE_DIGEST_BYTES]);
/* In hexadecimal, NUL-terminated. */
void base_digest_text(const uint8_t digest[BASE_DIGEST_BYTES], char text[BASE_DIGEST_TEXT]);
/* Of bytes that may be damaged, not of those that somebody may want to forge: a number that almost any change of them
 * changes, at the speed of memory. */
uint64_t base_checksum(const void *bytes, size_t count);
#endif
