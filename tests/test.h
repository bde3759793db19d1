/* test.h -- what every test is written with: cmocka, the headers that it wants in front of it, and those that nearly
 * all tests use. It comes first. */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#endif
