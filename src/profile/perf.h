/* perf.h -- generated code by name, in the two forms that Linux's perf reads. */
#ifndef PROFILE_PERF_H
#define PROFILE_PERF_H
#include "base/base.h"

/* A function of generated code. */
typedef struct prof_code {
  const char *name; /* as it is to be shown; no line breaks */
  const void *at;
  size_t bytes;
  const char *source; /* path of its C text; NULL: unknown */
  uint32_t line;
} prof_code;

/* Who has the code, and when it came. */
typedef struct prof_process {
  uint32_t pid, tid;
  uint64_t ns; /* of the monotonic clock */
} prof_process;

/* Lines "ADDRESS BYTES NAME", in hexadecimal digits: what /tmp/perf-PID.map holds. */
td_status prof_write_map(const prof_code *code, uint32_t count, const td_allocator *allocator, td_write_fn write,
                         void *user);
/* A whole file of perf's jitdump format (tools/perf/Documentation/jitdump-specification.txt of Linux): per function its
 * place in the C text, its name and its bytes. */
td_status prof_write_jitdump(const prof_code *code, uint32_t count, const prof_process *process,
                             const td_allocator *allocator, td_write_fn write, void *user);
#endif
