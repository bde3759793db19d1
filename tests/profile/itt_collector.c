/* itt_collector.c -- a collector of ITT ranges for tests, made from the binary interface as reference/runtime.md tells
 * it, by offsets: it shares no declaration with the client. It writes a line per event to the file that COLLECTED
 * names. OLD_COLLECTOR: without the entry of version 2, so that clients look up functions themselves. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void say(const char *what, const char *name) {
  pthread_mutex_lock(&lock);
  FILE *to = fopen(getenv("COLLECTED"), "a");
  if (to) fprintf(to, "%lx %s %s\n", (unsigned long)pthread_self(), what, name), fclose(to);
  pthread_mutex_unlock(&lock);
}

/* A client may keep what it is given until the collector goes. */
static struct kept { struct kept *next; } * kept;

/* `bytes` zeroed bytes, and behind them a copy of `text`, whose address is *copy. */
static char *keep(size_t bytes, const char *text, const char **copy) {
  struct kept *k = calloc(1, sizeof *k + bytes + strlen(text) + 1);
  pthread_mutex_lock(&lock);
  k->next = kept;
  kept = k;
  pthread_mutex_unlock(&lock);
  *copy = strcpy((char *)(k + 1) + bytes, text);
  return (char *)(k + 1);
}

__attribute__((destructor)) static void free_kept(void) {
  for (struct kept *next; kept; kept = next) {
    next = kept->next;
    free(kept);
  }
}

/* Domain: flags at 0, name at 8; 48 bytes. Text: at 0; 40 bytes. */
EXPORT void *__itt_domain_create(const char *name) {
  const char *copy;
  char *domain = keep(48, name, &copy);
  *(int *)(void *)domain = 1;
  *(const char **)(void *)(domain + 8) = copy;
  say("domain", name);
  return domain;
}

EXPORT void *__itt_string_handle_create(const char *text) {
  const char *copy;
  char *handle = keep(40, text, &copy);
  *(const char **)(void *)handle = copy;
  return handle;
}

typedef struct id {
  uint64_t a, b, c;
} id;

EXPORT void __itt_task_begin(const void *domain, id task, id parent, void *name) {
  if (!domain || task.a || task.b || task.c || parent.a || parent.b || parent.c) say("wrong", "ids");
  say("begin", *(char **)name);
}

EXPORT void __itt_task_end(const void *domain) { say("end", domain ? "" : "nowhere"); }

EXPORT void __itt_pause(void) { say("pause", ""); }
EXPORT void __itt_resume(void) { say("resume", ""); }

#ifndef OLD_COLLECTOR
static uint64_t word(const char *at) {
  uint64_t x;
  memcpy(&x, at, sizeof x);
  return x;
}

static const struct {
  const char *name;
  void *function;
} exported[] = {{"__itt_domain_create", (void *)__itt_domain_create},
                {"__itt_string_handle_create", (void *)__itt_string_handle_create},
                {"__itt_task_begin", (void *)__itt_task_begin},
                {"__itt_task_end", (void *)__itt_task_end},
                {"__itt_pause", (void *)__itt_pause},
                {"__itt_resume", (void *)__itt_resume}};

/* Entries of 40 bytes at 120: name, slot, two functions, group; a NULL name is the end. */
EXPORT void __itt_api_init(char *global, int groups) {
  static const unsigned char magic[8] = {0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30};
  if (memcmp(global, magic, 8) != 0 || word(global + 8) != 3 || groups == 0) say("wrong", "global");
  if (word(global + 96) == 0 || word(global + 112) == 0) say("wrong", "library");
  for (char *entry = (char *)(uintptr_t)word(global + 120); word(entry); entry += 40) {
    const char *name = (char *)(uintptr_t)word(entry);
    if (!word(entry + 16) || !word(entry + 24)) say("wrong", name);
    for (size_t i = 0; i < sizeof exported / sizeof *exported; i++)
      if (strcmp(name, exported[i].name) == 0) *(void **)(uintptr_t)word(entry + 8) = exported[i].function;
  }
}

EXPORT void __itt_api_fini(char *global) { say("fini", word(global + 120) ? "" : "nothing"); }
#endif
