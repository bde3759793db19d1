/* host.c -- is a request to be believed that a browser on this machine may have sent for a page from elsewhere? A name
 * of the page's own can be made to lead to the server (DNS rebinding): `Host` tells. A page can also send simple
 * requests to the server's address: `Origin` tells. Other clients send no Origin, and an address or localhost as Host.
 */
#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "server.h"

static bool same(base_str a, base_str b) { return a.length == b.length && strncasecmp(a.at, b.at, a.length) == 0; }

/* "name:8080" and "[::1]:8080" without the port. */
static base_str without_port(base_str host) {
  const char *end = host.length && host.at[0] == '[' ? memchr(host.at, ']', host.length) : NULL;
  if (end) return (base_str){host.at, (size_t)(end - host.at) + 1};
  const char *colon = host.length ? memchr(host.at, ':', host.length) : NULL;
  return (base_str){host.at, colon ? (size_t)(colon - host.at) : host.length};
}

static bool is_listed(const char *list, base_str name) {
  while (list && *list) {
    const size_t length = strcspn(list, ", ");
    if (length && same((base_str){list, length}, name)) return true;
    list += length + (list[length] != 0);
  }
  return false;
}

static bool is_address(base_str name) {
  char text[64];
  unsigned char bytes[16];
  const bool v6 = name.length > 2 && name.at[0] == '[';
  const size_t length = v6 ? name.length - 2 : name.length;
  if (!length || length >= sizeof text) return false;
  memcpy(text, name.at + v6, length);
  text[length] = 0;
  return inet_pton(v6 ? AF_INET6 : AF_INET, text, bytes) == 1;
}

static bool knows_host(const serve_job *job) {
  const base_str name = without_port(job->host);
  return same(name, BASE_STR("localhost")) || is_address(name) || is_listed(job->server->options.allowed_hosts, name);
}

/* The page is from the server's own address, or from a host that is listed, or may read all replies. */
static bool knows_origin(const serve_job *job) {
  static const char mark[] = "://";
  base_str rest = job->origin;
  const char *colon = memchr(rest.at, ':', rest.length);
  const char *cors = job->server->options.cors[0];
  if (cors && base_str_is(job->origin, cors)) return true;
  if (!colon) return false; /* "null" */
  rest = (base_str){colon, rest.length - (size_t)(colon - rest.at)};
  if (!base_str_starts(rest, mark)) return false;
  rest = (base_str){rest.at + sizeof mark - 1, rest.length - sizeof mark + 1};
  return (job->host.length && same(rest, job->host)) ||
         is_listed(job->server->options.allowed_hosts, without_port(rest));
}

static int shown(base_str text) { return (int)(text.length < 200 ? text.length : 200); }

bool serve_knows_page(serve_job *job) {
  if (strcmp(job->client, "unix") == 0) return true; /* no browser opens such a socket */
  if (job->host.length && !knows_host(job)) {
    serve_refuse(
        job, 421,
        "the request is for the host '%.*s', which is not known here: ask by address or localhost, or start the "
        "server with --allowed-host",
        shown(job->host), job->host.at);
    return false;
  }
  if (!job->origin.at || knows_origin(job)) return true;
  serve_refuse(job, 403,
               "a page of '%.*s' may not use this route: start the server with --allowed-host and the page's host",
               shown(job->origin), job->origin.at);
  return false;
}
