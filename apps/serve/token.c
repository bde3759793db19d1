/* token.c -- TorchServe's tokens: three keys of 128 bits in key_file.json, which only its owner can read. They do not
 * expire, since the server that made them is the one that asks for them. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "server.h"

static const char *const key_names[SERVE_KEYS] = {"management", "inference", "API"};
enum { MANAGEMENT, INFERENCE, API };

static bool make_key(char *key) {
  uint8_t bytes[(SERVE_KEY_BYTES - 1) / 2];
  if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) return false;
  for (size_t i = 0; i < sizeof bytes; i++) snprintf(key + 2 * i, 3, "%02x", bytes[i]);
  return true;
}

/* A new file takes the place of the old one at once, so that nobody reads half a key. */
static td_status write_file(const serve_server *server, td_error *err) {
  const char *path = server->options.key_file ? server->options.key_file : "key_file.json";
  char fresh[4096], text[512];
  int length = 0;
  if (snprintf(fresh, sizeof fresh, "%s.new", path) >= (int)sizeof fresh)
    return base_fail(err, TD_BAD_ARGUMENT, path, -1, "is too long a path");
  unlink(fresh);
  const int file = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return base_fail(err, TD_NO_RESOURCE, path, -1, "cannot be written; name another one with --key-file");
  for (int i = 0; i < SERVE_KEYS; i++)
    length += snprintf(text + length, sizeof text - (size_t)length, "%s  \"%s\": {\n    \"key\": \"%s\"\n  }",
                       i ? ",\n" : "{\n", key_names[i], server->keys[i]);
  length += snprintf(text + length, sizeof text - (size_t)length, "\n}\n");
  const bool whole = write(file, text, (size_t)length) == length;
  if (close(file) == 0 && whole && rename(fresh, path) == 0) return TD_OK;
  unlink(fresh);
  return base_fail(err, TD_NO_RESOURCE, path, -1, "cannot be written; name another one with --key-file");
}

td_status serve_make_keys(serve_server *server, td_error *err) {
  if (!server->options.start || server->options.no_tokens) return TD_OK;
  for (int i = 0; i < SERVE_KEYS; i++)
    if (!make_key(server->keys[i])) return base_fail(err, TD_NO_RESOURCE, NULL, -1, "the system has no random bytes");
  return write_file(server, err);
}

/* Takes the same time wherever they differ. */
static bool equal(const char *key, base_str given) {
  uint8_t different = given.length != SERVE_KEY_BYTES - 1;
  for (size_t i = 0; i < SERVE_KEY_BYTES - 1; i++)
    different |= (uint8_t)(key[i] ^ (i < given.length ? given.at[i] : 0));
  return !different;
}

static bool holds(const serve_server *server, const serve_job *job, int which) {
  static const char bearer[] = "Bearer ";
  base_str token = job->token;
  if (!server->keys[which][0]) return true;
  if (!base_str_starts(token, bearer)) return false;
  token = (base_str){token.at + sizeof bearer - 1, token.length - sizeof bearer + 1};
  return equal(server->keys[which], token);
}

bool serve_allowed(const serve_server *server, const serve_job *job, uint32_t role) {
  return role == SERVE_METRICS || holds(server, job, role == SERVE_MANAGE ? MANAGEMENT : INFERENCE);
}

void serve_renew_key(serve_job *job) {
  td_error err = {.offset = -1};
  serve_server *server = job->server;
  const char *type = serve_query(job, "type");
  const int which = type && strcmp(type, key_names[INFERENCE]) == 0 ? INFERENCE : MANAGEMENT;
  char old[SERVE_KEY_BYTES];
  if (!server->keys[API][0] || !holds(server, job, API)) {
    serve_refuse_as(job, 400, "InvalidKeyException",
                    "Token Authorization failed. Token either incorrect, expired, or not provided correctly");
    return;
  }
  if (!type || (which == MANAGEMENT && strcmp(type, key_names[MANAGEMENT]) != 0)) {
    serve_refuse(job, 400, "type is management or inference");
    return;
  }
  memcpy(old, server->keys[which], sizeof old);
  if (make_key(server->keys[which]) && write_file(server, &err) == TD_OK) {
    serve_answer(job, 200, "{\n  \"status\": \"the %s key was renewed\"\n}\n", type);
    return;
  }
  memcpy(server->keys[which], old, sizeof old);
  serve_refuse(job, 500, "the key file cannot be written");
}
