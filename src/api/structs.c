/* structs.c -- public structs whose caller may know fewer or more fields than this library; its version. */
#include "api/api_priv.h"

#include <string.h>

#define TEXT_OF(number) #number
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *td_version(void) { return VERSION_TEXT(TD_VERSION_MAJOR, TD_VERSION_MINOR, TD_VERSION_PATCH); }

/* Of a struct of `given` bytes the first `to_size`; what stands behind them must be zero. */
static td_status read_struct(void *to, size_t to_size, const void *from, size_t given, td_error *err) {
  enum { LARGEST = 1 << 16 }; /* no struct comes near: the field was not set */
  if (given < sizeof(size_t) || given > LARGEST)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "set the field size of the options struct first");
  for (size_t i = to_size; i < given; i++)
    if (((const unsigned char *)from)[i])
      return base_fail(err, TD_UNSUPPORTED, NULL, -1,
                       "a field behind the first %zu bytes of the options struct, which are those that libtreadle %s "
                       "knows, is set: use the library that the program was built for, or leave the field zero",
                       to_size, td_version());
  memcpy(to, from, given < to_size ? given : to_size);
  return TD_OK;
}

td_status api_read_options(void *to, size_t to_size, const void *from, td_error *err) {
  return from ? read_struct(to, to_size, from, *(const size_t *)from, err) : TD_OK;
}

td_status api_read_item(void *to, size_t to_size, const void *array, size_t stride, size_t index, td_error *err) {
  if (!stride) stride = to_size;
  return read_struct(to, to_size, (const char *)array + index * stride, stride, err);
}

td_status api_write_stats(void *to, const void *from, size_t from_size, td_error *err) {
  size_t room = *(size_t *)to;
  if (room < sizeof(size_t)) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "set the field size of the struct first");
  memcpy((char *)to + sizeof(size_t), (const char *)from + sizeof(size_t),
         (room < from_size ? room : from_size) - sizeof(size_t));
  return TD_OK;
}
