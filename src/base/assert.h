/* assert.h -- invariants of the program itself, which no input can break. Active where TREADLE_ASSERT is defined (Debug
 * builds, so sanitizers and fuzzers too): a broken one ends the process with its place and text. Elsewhere nothing is
 * evaluated, and no code is made. What a file, a caller or a lack of memory can break is an error, never this. */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

#ifdef TREADLE_ASSERT
_Noreturn void base_assert_failed(const char *text, const char *file, int line);
#define BASE_ASSERT(holds) ((holds) ? (void)0 : base_assert_failed(#holds, __FILE__, __LINE__))
#else
#define BASE_ASSERT(holds) ((void)sizeof((holds) ? 1 : 0))
#endif
#endif
