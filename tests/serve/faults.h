/* faults.h -- which call of the server fails: what test_serve_faults.c says to the server that faults.c is linked into,
 * in memory that both share. */
#ifndef TESTS_SERVE_FAULTS_H
#define TESTS_SERVE_FAULTS_H
#include <stdatomic.h>
#include <stdint.h>

/* The number of the descriptor of the plan, in the server's environment. */
#define FAULTS_ENVIRONMENT "TREADLE_TEST_FAULTS"

enum {
  FAULT_MEMORY = 1,      /* malloc and its like; mmap */
  FAULT_DESCRIPTORS = 2, /* what opens or makes one */
  FAULT_TRANSFERS = 4,   /* what reads, sends, or adds to an epoll */
  FAULT_THREADS = 8,
  FAULT_HTTP2 = 16, /* what nghttp2 wants memory for: its own allocations are not ours to refuse */
  FAULT_ACCEPT = 32,
  FAULT_TLS = 64, /* what OpenSSL wants memory for, likewise */
  FAULT_ALL = 127
};

typedef struct fault_plan {
  _Atomic uint32_t kinds; /* that are counted and may fail; 0: none */
  _Atomic uint32_t lasts; /* all calls behind the one that fails do, too */
  _Atomic uint64_t at;    /* the first is 1 */
  _Atomic uint64_t made;
  char struck[32]; /* the last call that failed */
} fault_plan;
#endif
