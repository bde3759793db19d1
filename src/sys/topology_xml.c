/* topology_xml.c -- the objects of hwloc's XML (lstopo machine.xml, versions 1 and 2). Memory is an object beside the
 * CPUs of its parent, or, in version 1, around them. */
#include "sys/topology_priv.h"

#include <string.h>

enum { MOST_DEPTH = 64, NONE = UINT32_MAX };

typedef struct object {
  bool is_node;
  uint32_t package, l3, core, number; /* NONE: nothing of that kind around here */
  uint32_t node;                      /* of memory that hangs at this object or around it */
  uint32_t first;                     /* of the CPUs found inside */
} object;

typedef struct reader {
  base_str text;
  const char *at, *end;
  object stack[MOST_DEPTH];
  uint32_t depth, objects;
  sys_cpu_set efficient, allowed;
  bool knows_allowed;
  base_arena *arena;
  sys_found_cpus *found;
  td_error *err;
} reader;

static td_status wrong(const reader *r, const char *what) {
  return base_fail(r->err, TD_BAD_FILE, "topology", r->at - r->text.at, "%s", what);
}

/* The value of an attribute in the tag [at, end); empty: there is none. */
static base_str attribute(const char *at, const char *end, const char *name) {
  const size_t length = strlen(name);
  for (; at + length + 3 <= end; at++) {
    if (*at != ' ' || memcmp(at + 1, name, length) != 0 || at[length + 1] != '=' || at[length + 2] != '"') continue;
    const char *value = at + length + 3, *close = memchr(value, '"', (size_t)(end - value));
    return close ? (base_str){value, (size_t)(close - value)} : (base_str){0};
  }
  return (base_str){0};
}

static uint32_t number_of(base_str text, uint32_t otherwise) {
  int64_t number;
  return base_str_int(text, &number) && number >= 0 && number < SYS_MOST_CPUS ? (uint32_t)number : otherwise;
}

static uint32_t hex_digit(char c) {
  if (c >= '0' && c <= '9') return (uint32_t)(c - '0');
  if (c >= 'a' && c <= 'f') return (uint32_t)(c - 'a') + 10;
  return c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10 : 16;
}

/* "0x0000000f,0xffffffff": words of 32 bits, the highest first; an empty word is 0. */
static void add_mask(base_str mask, sys_cpu_set *set) {
  uint32_t word = 0, bit = 0; /* from the lowest on */
  for (size_t i = mask.length; i-- > 0;) {
    const uint32_t digit = hex_digit(mask.at[i]);
    if (mask.at[i] == ',') word += 32, bit = 0;
    if (digit == 16) continue; /* a comma, or the x of 0x */
    for (uint32_t k = 0; k < 4 && bit < 32; k++)
      if (digit >> k & 1) sys_set_add(set, word + bit + k);
    bit += 4;
  }
}

static td_status add_cpu(reader *r, const object *o) {
  sys_found_cpu *cpu = base_vec_push(r->arena, r->found);
  if (!cpu) return base_no_memory(r->err, "a topology");
  if (o->number == NONE) return wrong(r, "a PU has no os_index");
  if (r->found->count > SYS_MOST_CPUS) return wrong(r, "too many CPUs");
  const uint32_t package = o->package == NONE ? 0 : o->package;
  *cpu = (sys_found_cpu){.number = o->number,
                         .core_key = o->core == NONE ? r->objects : o->core,
                         .package = package,
                         .node = o->node,
                         .l3_key = o->l3 == NONE ? UINT32_MAX - package : o->l3,
                         .allowed = true};
  return TD_OK;
}

/* What is left without memory inside of an object gets that which hangs at it. */
static td_status close_object(reader *r) {
  if (r->depth == 0) return wrong(r, "</object> without its beginning");
  const object *o = &r->stack[--r->depth];
  if (o->is_node && o->first == r->found->count) { /* nothing inside: it hangs at the parent */
    if (r->depth && r->stack[r->depth - 1].node == NONE) r->stack[r->depth - 1].node = o->node;
    return TD_OK;
  }
  for (uint32_t i = o->first; i < r->found->count; i++)
    if (r->found->at[i].node == NONE) r->found->at[i].node = o->node;
  return TD_OK;
}

static td_status open_object(reader *r, const char *start, const char *end) {
  if (r->depth == MOST_DEPTH) return wrong(r, "objects are nested too deep");
  object *o = &r->stack[r->depth];
  *o = r->depth ? o[-1] : (object){.package = NONE, .l3 = NONE, .core = NONE};
  o->number = number_of(attribute(start, end, "os_index"), NONE);
  o->first = r->found->count;
  o->node = NONE;
  r->objects++;
  const base_str type = attribute(start, end, "type");
  o->is_node = base_str_is(type, "NUMANode");
  if (o->is_node) o->node = o->number == NONE ? 0 : o->number;
  if (base_str_is(type, "Package") || base_str_is(type, "Socket")) o->package = o->number == NONE ? 0 : o->number;
  if (base_str_is(type, "L3Cache")) o->l3 = r->objects;
  if (base_str_is(type, "Cache") && base_str_is(attribute(start, end, "depth"), "3")) o->l3 = r->objects;
  if (base_str_is(type, "Core")) o->core = r->objects;
  const base_str allowed = attribute(start, end, "allowed_cpuset");
  if (r->depth == 0 && allowed.length) {
    add_mask(allowed, &r->allowed);
    r->knows_allowed = true;
  }
  r->depth++;
  if (base_str_is(type, "PU")) TRY(add_cpu(r, o));
  return end[-1] == '/' ? close_object(r) : TD_OK;
}

/* <cpukind cpuset="..."> holds <info name="CoreType" value="IntelAtom"/>. */
static void take_kind(reader *r, const char *start, const char *end) {
  static const char close[] = "</cpukind>";
  const size_t left = (size_t)(r->end - end);
  const char *stop = memmem(end, left, close, sizeof close - 1);
  if (stop && memmem(end, (size_t)(stop - end), "IntelAtom", 9))
    add_mask(attribute(start, end, "cpuset"), &r->efficient);
}

static bool tag_is(const char *tag, const char *end, const char *name) {
  const size_t length = strlen(name);
  return (size_t)(end - tag) > length && memcmp(tag, name, length) == 0;
}

td_status sys_xml_cpus(base_str text, base_arena *arena, sys_found_cpus *found, td_error *err) {
  reader r = {.text = text, .at = text.at, .end = text.at + text.length, .arena = arena, .found = found, .err = err};
  while ((r.at = memchr(r.at, '<', (size_t)(r.end - r.at)))) {
    const char *start = ++r.at, *end = memchr(start, '>', (size_t)(r.end - start));
    if (!end || end == start) return wrong(&r, "a tag that does not end");
    if (tag_is(start, end, "object ")) TRY(open_object(&r, start, end));
    else if ((size_t)(end - start) == 7 && memcmp(start, "/object", 7) == 0) TRY(close_object(&r));
    else if (tag_is(start, end, "cpukind ")) take_kind(&r, start, end);
    r.at = end;
  }
  r.at = r.end;
  if (r.depth) return wrong(&r, "an object does not end");
  for (uint32_t i = 0; i < found->count; i++) {
    sys_found_cpu *cpu = &found->at[i];
    if (cpu->node == NONE) cpu->node = 0;
    cpu->efficient = sys_set_has(&r.efficient, cpu->number);
    cpu->allowed = !r.knows_allowed || sys_set_has(&r.allowed, cpu->number);
  }
  return TD_OK;
}
