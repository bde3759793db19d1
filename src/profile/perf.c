/* perf.c -- what Linux's perf is told of generated code.
 *
 * A jitdump file is a header and records, all numbers in the machine's own order; a record's first 16 bytes say what it
 * is, how long it is and when it was written:
 *
 *     header: magic, version, header bytes, ELF machine, 0, pid (u32 each), time, flags (u64)
 *     DEBUG_INFO: address, entries (u64), then each: address (u64), line, discriminator (u32), path, NUL
 *     LOAD: pid, tid (u32), address, address, bytes, number (u64), name, NUL, the code
 *
 * DEBUG_INFO stands in front of the LOAD that it is of. */
#include <string.h>

#include "profile/perf.h"
#include "profile/profile_priv.h"

enum { MAGIC = 0x4a695444, VERSION = 1, HEADER_BYTES = 40, X86_64 = 62, LOAD = 0, DEBUG_INFO = 2 };

td_status prof_write_map(const prof_code *code, uint32_t count, const td_allocator *allocator, td_write_fn write,
                         void *user) {
  prof_out out = {.write = write, .user = user, .text = {.allocator = allocator}};
  for (uint32_t i = 0; i < count; i++)
    prof_print(&out, "%llx %llx %s\n", (unsigned long long)(uintptr_t)code[i].at, (unsigned long long)code[i].bytes,
               code[i].name);
  return prof_finish(&out);
}

static void put_bytes(prof_out *out, const void *at, size_t count) { base_text_add(&out->text, at, count); }
static void put_u32(prof_out *out, uint32_t x) { put_bytes(out, &x, sizeof x); }
static void put_u64(prof_out *out, uint64_t x) { put_bytes(out, &x, sizeof x); }
static void put_string(prof_out *out, const char *text) { put_bytes(out, text, strlen(text) + 1); }

static void put_head(prof_out *out, uint32_t what, size_t bytes, uint64_t ns) {
  put_u32(out, what);
  put_u32(out, (uint32_t)(bytes + 16));
  put_u64(out, ns);
}

static void put_place(prof_out *out, const prof_code *code, uint64_t ns) {
  put_head(out, DEBUG_INFO, 16 + 16 + strlen(code->source) + 1, ns);
  put_u64(out, (uintptr_t)code->at);
  put_u64(out, 1);
  put_u64(out, (uintptr_t)code->at);
  put_u32(out, code->line);
  put_u32(out, 0);
  put_string(out, code->source);
}

static void put_code(prof_out *out, const prof_code *code, uint32_t number, const prof_process *process) {
  put_head(out, LOAD, 40 + strlen(code->name) + 1 + code->bytes, process->ns);
  put_u32(out, process->pid);
  put_u32(out, process->tid);
  put_u64(out, (uintptr_t)code->at);
  put_u64(out, (uintptr_t)code->at);
  put_u64(out, code->bytes);
  put_u64(out, number);
  put_string(out, code->name);
  put_bytes(out, code->at, code->bytes);
}

td_status prof_write_jitdump(const prof_code *code, uint32_t count, const prof_process *process,
                             const td_allocator *allocator, td_write_fn write, void *user) {
  prof_out out = {.write = write, .user = user, .text = {.allocator = allocator}};
  const uint32_t head[] = {MAGIC, VERSION, HEADER_BYTES, X86_64, 0, process->pid};
  put_bytes(&out, head, sizeof head);
  put_u64(&out, process->ns);
  put_u64(&out, 0);
  for (uint32_t i = 0; i < count; i++) {
    if (code[i].source && code[i].line) put_place(&out, &code[i], process->ns);
    put_code(&out, &code[i], i, process);
    prof_put(&out, ""); /* hands over what has come together */
  }
  return prof_finish(&out);
}
