/* code.h -- other programs, the files they make, and machine code from files. */
#ifndef SYS_CODE_H
#define SYS_CODE_H
#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- processes (process.c) ---- */

typedef struct sys_process {
  int id; /* of whoever defines the functions: process.c's number of the process; the server has its own */
} sys_process;
/* Starts argv[0], a path, with no input and all output into a new file at `output`. Its environment is a fixed one
 * (a search path of the system's folders, the C locale, `folder` for temporary files). */
td_status sys_process_start(sys_process *process, const char *const *argv, const char *output, const char *folder,
                            td_error *err);
/* Waits for its end; after `limit_ms`, or when *stop (may be NULL) becomes true, it is killed, with all that it
 * started. *code: what it returned, 128 + n for signal n, -1 killed here. */
void sys_process_wait(const sys_process *process, uint32_t limit_ms, const _Atomic bool *stop, int *code);

/* ---- private files (private.c) ---- */

/* Makes the folder at `path` (those above it too) where it is not there, for this user alone. Fails where it belongs to
 * somebody else, or others may write to it. */
td_status sys_private_folder(const char *path, td_error *err);
/* Writes a file for this user alone; `executable`: that may be loaded as code. */
td_status sys_write_file(const char *path, const void *bytes, size_t count, td_error *err);
/* The same from parts, one after the other; `shared`: for whom the user's mask lets read. */
typedef struct sys_part {
  const void *at;
  size_t bytes;
} sys_part;
td_status sys_write_parts(const char *path, const sys_part *parts, size_t count, bool shared, td_error *err);
/* Is there a regular file at `path` of this user that nobody else can write? */
bool sys_is_private_file(const char *path);
/* `from` takes the name `to`, at once: whoever looks sees what was there or all of what comes. */
td_status sys_rename(const char *from, const char *to, td_error *err);
void sys_remove(const char *path);
/* A lock that one holder has at a time, of all threads and processes that name its file; it ends with its process. */
typedef struct sys_lock {
  int file; /* -1: none */
} sys_lock;
typedef enum sys_lock_state {
  SYS_LOCK_TAKEN,
  SYS_LOCK_BUSY,
  SYS_LOCK_NONE /* there can be none here */
} sys_lock_state;
sys_lock_state sys_lock_try(const char *path, sys_lock *lock);
void sys_lock_drop(sys_lock *lock, const char *path); /* the file goes; one that is not held is left alone */
void sys_sleep_ms(uint32_t ms);
/* Removes files of the folder, least recently changed first, until those left take at most `bytes`. */
void sys_trim_folder(const char *path, uint64_t bytes);
uint64_t sys_process_id(void);
/* Size and time of last change of a file, mixed into a number that changes with either; 0: there is none. */
uint64_t sys_file_stamp(const char *path);

/* ---- machine code (dynamic.c) ---- */

/* Loads the shared object; its names are seen by nobody else. NULL: *err says why. */
void *sys_code_open(const char *path, td_error *err);
/* The same of the bytes of one, through a file without a name. */
void *sys_code_open_bytes(const void *bytes, size_t count, td_error *err);
void *sys_code_find(void *code, const char *name); /* NULL: there is none */
size_t sys_code_bytes(const void *function);       /* of a function that sys_code_find gave; 0: unknown */
void sys_code_close(void *code);
#endif
