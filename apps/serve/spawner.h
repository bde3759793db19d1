/* spawner.h -- processes beside the server that start programs for it, so that the server itself can do without the
 * system calls that start any. */
#ifndef SERVE_SPAWNER_H
#define SERVE_SPAWNER_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* What can be started, as the server's options have it: nothing else. */
typedef struct spawner_plan {
  const char *compiler, *cache; /* its path, and the folder for what it reads and writes; NULL: there is none */
  const char *python;           /* NULL: no Python handlers */
  const char *folders;          /* where those are unpacked, each in a folder of its own */
  uint64_t python_memory;       /* bytes of a worker; 0: no limit */
} spawner_plan;

typedef enum spawner_program { SPAWNER_COMPILER, SPAWNER_WORKER } spawner_program;

/* A program that runs. */
typedef struct spawned {
  pid_t pid;
  int line;   /* tells of its end; without this end of it, it is killed with all that it has started */
  int socket; /* a worker's, whose end it has as descriptor 3; else -1 */
} spawned;

enum { SPAWNER_ENDED = -1 }; /* for a program's state: it ended together with the process that had started it */

/* Forks the first of the processes: while the server has no threads. They end with the server. */
td_status spawner_start(const spawner_plan *plan, td_error *err);
/* Ends all that they have started, and them. */
void spawner_end(void);
/* Starts a program; from any thread. `words`: what a compiler is given, as the code generator writes it; a worker's
 * script and its model's name. `threads`: how many a worker's libraries are to have. `output` gets what it prints.
 * Errors: TD_NO_RESOURCE, also where the words are others. */
td_status spawner_run(spawner_program which, const char *const *words, uint32_t threads, int output, spawned *out,
                      td_error *err);
/* Has it ended? Waits for that up to `ms`. *state, where it is true, and for the first who asks: as waitpid gives it,
 * or SPAWNER_ENDED. */
bool spawned_wait(int line, int ms, int *state);
bool spawned_has_ended(int line);
/* Without waiting for its end. */
void spawned_kill(int line);
#endif
