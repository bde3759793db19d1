/* sequence.h -- sequences: requests of one client that a model with session state answers one after the other, each
 * from what the one before it has left. A sequence has a session of its own from its first request to its last.
 *
 * The table of sequences, and a sequence that has no request under way, belong to who holds server->tables. Its session
 * belongs to the thread that computes a request of it; there is one at a time. */
#ifndef SERVE_SEQUENCE_H
#define SERVE_SEQUENCE_H
#include "server.h"

enum { SEQUENCE_ID_BYTES = 128 };

struct serve_sequence {
  serve_sequence *next;   /* of the same place of the table */
  serve_version *version; /* that it began with, and stays with; a reference is held */
  char id[SEQUENCE_ID_BYTES + 1];
  uint32_t jobs;              /* that are not back */
  uint64_t begun_ns, used_ns; /* used_ns: when the last one came back */
  bool names_version;         /* its first request did */
  bool is_out;                /* of the table: another one has its id, or its version is gone */
  bool is_counted;            /* as started */
  serve_job freeing;          /* what has the loader free its session */
  /* ---- of the thread that computes a request; under server->tables while there are none ---- */
  serve_session *session; /* NULL: none was computed */
  bool has_begun, is_over;
  /* ---- under server->lock ---- */
  bool is_busy; /* a request is computed: the next one waits */
};

/* On the thread that computes the job: its sequence has a session then. False: the job is refused. */
bool sequence_open(serve_job *job);
#endif
