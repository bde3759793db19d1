/* topology_text.c -- machines from text: a description and statements that change it, or XML. */
#include "sys/topology_priv.h"

#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

typedef struct changes {
  sys_cpu_set efficient, offline, allowed;
  bool narrows;
  double quota;
} changes;

static base_str trimmed(base_str text) {
  while (text.length && strchr(" \t\r", *text.at)) text.at++, text.length--;
  while (text.length && strchr(" \t\r", text.at[text.length - 1])) text.length--;
  return text;
}

/* The next statement, without its comment. */
static base_str next_statement(base_str *rest) {
  size_t length = 0, kept;
  while (length < rest->length && rest->at[length] != ';' && rest->at[length] != '\n' && rest->at[length] != '#')
    length++;
  kept = length;
  if (length < rest->length && rest->at[length] == '#')
    while (length < rest->length && rest->at[length] != '\n') length++;
  const base_str statement = trimmed((base_str){rest->at, kept});
  length += length < rest->length;
  rest->at += length;
  rest->length -= length;
  return statement;
}

static bool take_quota(base_str text, double *quota) {
  char number[32], *end;
  if (text.length == 0 || text.length >= sizeof number) return false;
  memcpy(number, text.at, text.length);
  number[text.length] = 0;
  *quota = strtod(number, &end);
  return *end == 0 && *quota > 0 && *quota <= SYS_MOST_CPUS;
}

/* False: it is no statement about CPUs. */
static bool take_change(base_str statement, changes *c) {
  const char *blank = statement.length ? memchr(statement.at, ' ', statement.length) : NULL;
  if (!blank) return false;
  const base_str word = {statement.at, (size_t)(blank - statement.at)};
  const base_str value = trimmed((base_str){blank, statement.length - word.length});
  if (base_str_is(word, "efficient")) return sys_set_parse(value, &c->efficient);
  if (base_str_is(word, "offline")) return sys_set_parse(value, &c->offline);
  if (base_str_is(word, "allowed")) return c->narrows = true, sys_set_parse(value, &c->allowed);
  return base_str_is(word, "quota") && take_quota(value, &c->quota);
}

static void apply(const changes *c, sys_found_cpus *found) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < found->count; i++) {
    sys_found_cpu cpu = found->at[i];
    if (sys_set_has(&c->offline, cpu.number)) continue;
    cpu.efficient |= sys_set_has(&c->efficient, cpu.number);
    if (c->narrows) cpu.allowed = sys_set_has(&c->allowed, cpu.number);
    found->at[kept++] = cpu;
  }
  found->count = kept;
}

td_status sys_topology_parse(base_str text, base_arena *arena, sys_topology *t, td_error *err) {
  sys_found_cpus found = {0};
  changes c = {0};
  base_str rest = text;
  if (trimmed(text).length && *trimmed(text).at == '<') {
    TRY(sys_xml_cpus(text, arena, &found, err));
    rest.length = 0;
  }
  for (bool first = true; rest.length;) {
    const base_str statement = next_statement(&rest);
    if (statement.length == 0) continue;
    if (first) {
      TRY(sys_synthetic_cpus(statement, arena, &found, err));
    } else if (!take_change(statement, &c)) {
      return base_fail(err, TD_BAD_FILE, "topology", statement.at - text.at,
                       "'%.*s' is not efficient LIST, offline LIST, allowed LIST or quota NUMBER",
                       (int)(statement.length < 60 ? statement.length : 60), statement.at);
    }
    first = false;
  }
  apply(&c, &found);
  TRY(sys_topology_of(&found, arena, t, err));
  t->quota_cpus = c.quota;
  if (t->allowed == 0) return base_fail(err, TD_BAD_FILE, "topology", -1, "none of its CPUs is allowed");
  return TD_OK;
}

td_status sys_topology_load(const char *text, base_arena *arena, sys_topology *t, td_error *err) {
  sys_mapping file = {0};
  const td_status mapped = sys_file_map(text, &file, err);
  if (mapped != TD_OK && strchr(text, ':')) return sys_topology_parse(base_str_of(text), arena, t, err);
  if (mapped != TD_OK) return mapped;
  const td_status status = sys_topology_parse((base_str){file.bytes, file.size}, arena, t, err);
  sys_unmap(&file);
  return status;
}
