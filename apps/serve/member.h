/* member.h -- one member of a JSON document, found without reading what stands beside it. */
#ifndef SERVE_MEMBER_H
#define SERVE_MEMBER_H
#include "base/base.h"

/* The text of the value that the object at the top has by this name, if that is written without escapes; at == NULL:
 * there is none. Allocates nothing. Of a document that is damaged it may find something or not: who reads all of it
 * says what is wrong. */
base_str serve_find_member(base_str document, const char *name);
#endif
