/* pickle.c -- the pickle machine: a stack, marks and a memo, driven by a table of the instructions that PyTorch writes.
 * Nothing is imported or called: globals are rows of a table (pickle_globals.c). */
#include "fmt/pickle_priv.h"

#include "fmt/bytes_priv.h"

typedef td_status (*op_fn)(fmt_machine *m, int argument);

td_status fmt_machine_fail(fmt_machine *m, td_status code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  base_vfail(m->err, code, NULL, m->opcode - m->file, format, args);
  va_end(args);
  return code;
}

static td_status no_memory(fmt_machine *m) { return base_no_memory(m->err, "pickle"); }

fmt_object *fmt_new_object(fmt_machine *m, fmt_object_kind kind) {
  enum { AT_ONCE = 32 };
  if (!m->spare_count) {
    m->spare = base_new(m->arena, fmt_object, AT_ONCE);
    m->spare_count = m->spare ? AT_ONCE : 0;
  }
  if (!m->spare_count) return NULL;
  fmt_object *o = &m->spare[--m->spare_count];
  o->kind = kind;
  return o;
}

/* ---- bytes and stack --------------------------------------------------------------------------------------------- */

static inline td_status take(fmt_machine *m, size_t count, const uint8_t **bytes) {
  if ((size_t)(m->end - m->at) < count)
    return fmt_machine_fail(m, TD_BAD_FILE, "the pickle ends inside an instruction");
  *bytes = m->at;
  m->at += count;
  return TD_OK;
}

/* An unsigned number of `bytes` bytes. */
static inline td_status take_number(fmt_machine *m, int bytes, uint32_t *value) {
  const uint8_t *p = NULL;
  TRY(take(m, (size_t)bytes, &p));
  *value = bytes == 1 ? p[0] : bytes == 2 ? fmt_le16(p) : fmt_le32(p);
  return TD_OK;
}

/* Text up to a newline. */
static td_status take_line(fmt_machine *m, base_str *line) {
  const uint8_t *stop = memchr(m->at, '\n', (size_t)(m->end - m->at));
  if (!stop) return fmt_machine_fail(m, TD_BAD_FILE, "the pickle ends inside a name");
  *line = (base_str){(const char *)m->at, (size_t)(stop - m->at)};
  m->at = stop + 1;
  return TD_OK;
}

static inline td_status push(fmt_machine *m, fmt_object *o) {
  fmt_object **slot = o ? base_vec_push(m->arena, &m->stack) : NULL;
  if (!slot) return no_memory(m);
  *slot = o;
  return TD_OK;
}

/* How many objects lie above the last mark (or on the stack, where there is none). */
static uint32_t height(const fmt_machine *m) {
  return m->stack.count - (m->marks.count ? m->marks.at[m->marks.count - 1] : 0);
}

static td_status pop(fmt_machine *m, fmt_object **o) {
  if (height(m) == 0) return fmt_machine_fail(m, TD_BAD_FILE, "the pickle takes more than it has put on its stack");
  *o = m->stack.at[--m->stack.count];
  return TD_OK;
}

/* The object on top, which must be of one of two kinds; it stays. */
static td_status top(fmt_machine *m, fmt_object_kind a, fmt_object_kind b, fmt_object **o) {
  if (height(m) == 0 || (m->stack.at[m->stack.count - 1]->kind != a && m->stack.at[m->stack.count - 1]->kind != b))
    return fmt_machine_fail(m, TD_BAD_FILE, "the pickle applies an instruction to the wrong kind of object");
  *o = m->stack.at[m->stack.count - 1];
  return TD_OK;
}

/* Removes the last mark; what was above it starts at *first of the stack. */
static td_status pop_mark(fmt_machine *m, uint32_t *first) {
  if (m->marks.count == 0) return fmt_machine_fail(m, TD_BAD_FILE, "the pickle has no mark to go back to");
  *first = m->marks.at[--m->marks.count];
  return TD_OK;
}

/* Moves the stack from `first` on to the end of `to`. */
static td_status move_items(fmt_machine *m, uint32_t first, fmt_objects *to) {
  if (!to->cap && first < m->stack.count) { /* most never grow */
    to->cap = m->stack.count - first;
    to->at = base_arena_alloc_uncleared(m->arena, to->cap * sizeof *to->at, sizeof(void *));
    if (!to->at) return no_memory(m);
  }
  for (uint32_t i = first; i < m->stack.count; i++) {
    fmt_object **slot = base_vec_push(m->arena, to);
    if (!slot) return no_memory(m);
    *slot = m->stack.at[i];
  }
  m->stack.count = first;
  return TD_OK;
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */

static td_status op_proto(fmt_machine *m, int argument) {
  uint32_t version = 0;
  (void)argument;
  TRY(take_number(m, 1, &version));
  if (version != 2) return fmt_machine_fail(m, TD_UNSUPPORTED, "pickle protocol %u is not read, only 2", version);
  return TD_OK;
}

static td_status op_stop(fmt_machine *m, int argument) {
  (void)argument;
  m->stopped = true;
  return TD_OK;
}

static td_status op_mark(fmt_machine *m, int argument) {
  (void)argument;
  uint32_t *slot = base_vec_push(m->arena, &m->marks);
  if (!slot) return no_memory(m);
  *slot = m->stack.count;
  return TD_OK;
}

/* None and empty containers: the argument is the kind. */
static td_status op_empty(fmt_machine *m, int kind) { return push(m, fmt_new_object(m, (fmt_object_kind)kind)); }

static td_status op_bool(fmt_machine *m, int value) {
  fmt_object *o = fmt_new_object(m, FMT_OBJ_BOOL);
  if (o) o->u.i = value;
  return push(m, o);
}

/* BININT1, BININT2, BININT: only the last has a sign. */
static td_status op_int(fmt_machine *m, int bytes) {
  uint32_t value = 0;
  TRY(take_number(m, bytes, &value));
  fmt_object *o = fmt_new_object(m, FMT_OBJ_INT);
  if (o) o->u.i = bytes == 4 ? (int32_t)value : (int64_t)value;
  return push(m, o);
}

static td_status op_long(fmt_machine *m, int argument) {
  uint32_t bytes = 0;
  const uint8_t *p = NULL;
  (void)argument;
  TRY(take_number(m, 1, &bytes));
  TRY(take(m, bytes, &p));
  fmt_object *o = fmt_new_object(m, bytes > 8 ? FMT_OBJ_LONG : FMT_OBJ_INT);
  if (!o) return no_memory(m);
  if (bytes > 8) {
    o->u.str = (base_str){(const char *)p, bytes};
    return push(m, o);
  }
  uint64_t value = bytes && p[bytes - 1] >= 128 ? UINT64_MAX : 0;
  for (uint32_t i = bytes; i-- > 0;) value = value << 8 | p[i];
  o->u.i = (int64_t)value;
  return push(m, o);
}

static td_status op_float(fmt_machine *m, int argument) {
  const uint8_t *p = NULL;
  uint64_t bits = 0;
  (void)argument;
  TRY(take(m, 8, &p));
  for (int i = 0; i < 8; i++) bits = bits << 8 | p[i]; /* the one big-endian number of the format */
  fmt_object *o = fmt_new_object(m, FMT_OBJ_FLOAT);
  if (o) memcpy(&o->u.f, &bits, sizeof bits);
  return push(m, o);
}

static td_status op_unicode(fmt_machine *m, int argument) {
  uint32_t bytes = 0;
  const uint8_t *p = NULL;
  (void)argument;
  TRY(take_number(m, 4, &bytes));
  TRY(take(m, bytes, &p));
  fmt_object *o = fmt_new_object(m, FMT_OBJ_STR);
  if (o) o->u.str = (base_str){(const char *)p, bytes};
  return push(m, o);
}

/* TUPLE1 to TUPLE3. */
static td_status op_tuple_of(fmt_machine *m, int count) {
  if (height(m) < (uint32_t)count) return fmt_machine_fail(m, TD_BAD_FILE, "the pickle makes a tuple of too little");
  fmt_object *o = fmt_new_object(m, FMT_OBJ_TUPLE);
  if (!o) return no_memory(m);
  TRY(move_items(m, m->stack.count - (uint32_t)count, &o->u.items));
  return push(m, o);
}

/* TUPLE, LIST, DICT: everything above the mark. */
static td_status op_collect(fmt_machine *m, int kind) {
  uint32_t first = 0;
  TRY(pop_mark(m, &first));
  if (kind == FMT_OBJ_DICT && (m->stack.count - first) % 2)
    return fmt_machine_fail(m, TD_BAD_FILE, "a dictionary has a key without a value");
  fmt_object *o = fmt_new_object(m, (fmt_object_kind)kind);
  if (!o) return no_memory(m);
  TRY(move_items(m, first, &o->u.items));
  return push(m, o);
}

/* Adds what is above `first` to the container below it. */
static td_status extend(fmt_machine *m, uint32_t first, fmt_object_kind kind) {
  uint32_t count = m->stack.count, floor = count - height(m);
  fmt_object *to = NULL;
  if (first <= floor) return fmt_machine_fail(m, TD_BAD_FILE, "the pickle adds to a container that is not there");
  m->stack.count = first;
  TRY(top(m, kind, kind, &to));
  m->stack.count = count;
  if (kind == FMT_OBJ_DICT && (count - first) % 2)
    return fmt_machine_fail(m, TD_BAD_FILE, "a dictionary has a key without a value");
  return move_items(m, first, &to->u.items);
}

/* APPENDS, SETITEMS */
static td_status op_extend(fmt_machine *m, int kind) {
  uint32_t first = 0;
  TRY(pop_mark(m, &first));
  return extend(m, first, (fmt_object_kind)kind);
}

/* APPEND, SETITEM: one element, or a key and a value. */
static td_status op_add(fmt_machine *m, int kind) {
  uint32_t count = kind == FMT_OBJ_DICT ? 2 : 1;
  if (height(m) <= count) return fmt_machine_fail(m, TD_BAD_FILE, "the pickle adds to a container that is not there");
  return extend(m, m->stack.count - count, (fmt_object_kind)kind);
}

static td_status op_put(fmt_machine *m, int bytes) {
  uint32_t index = 0;
  TRY(take_number(m, bytes, &index));
  if (height(m) == 0) return fmt_machine_fail(m, TD_BAD_FILE, "the pickle remembers an object that is not there");
  if (index >= (size_t)(m->end - m->file)) /* no writer counts faster than it writes; bounds the memory */
    return fmt_machine_fail(m, TD_BAD_FILE, "the pickle remembers object number %u, too many for its size", index);
  while (m->memo.count <= index) {
    fmt_object **slot = base_vec_push(m->arena, &m->memo);
    if (!slot) return no_memory(m);
  }
  m->memo.at[index] = m->stack.at[m->stack.count - 1];
  return TD_OK;
}

static td_status op_get(fmt_machine *m, int bytes) {
  uint32_t index = 0;
  TRY(take_number(m, bytes, &index));
  if (index >= m->memo.count || !m->memo.at[index])
    return fmt_machine_fail(m, TD_BAD_FILE, "the pickle asks for object number %u, which it never had", index);
  return push(m, m->memo.at[index]);
}

static td_status op_global(fmt_machine *m, int argument) {
  base_str module = {"", 0}, name = {"", 0};
  (void)argument;
  TRY(take_line(m, &module));
  TRY(take_line(m, &name));
  const struct fmt_global_row *row = fmt_find_global(module, name);
  if (!row && !base_str_is(module, "__torch__") && !base_str_starts(module, "__torch__."))
    return fmt_machine_fail(m, TD_UNSUPPORTED,
                            "the file wants Python's %.*s.%.*s, and nothing in it is executed; save a plain state_dict",
                            (int)(module.length < 100 ? module.length : 100), module.at,
                            (int)(name.length < 100 ? name.length : 100), name.at);
  fmt_object *o = fmt_new_object(m, FMT_OBJ_GLOBAL);
  fmt_global *g = base_new(m->arena, fmt_global, 1);
  if (!o || !g) return no_memory(m);
  *g = (fmt_global){module, name, row};
  o->u.global = g;
  return push(m, o);
}

/* A value of an enumeration of TorchScript: the class applied to it, without a tuple around. */
static td_status make_enum(fmt_machine *m, fmt_object *class, fmt_object *value) {
  fmt_object *o = fmt_new_object(m, FMT_OBJ_ENUM);
  fmt_object **slot = o ? base_vec_push(m->arena, &o->u.items) : NULL;
  if (!slot) return no_memory(m);
  *slot = class;
  slot = base_vec_push(m->arena, &o->u.items);
  if (!slot) return no_memory(m);
  *slot = value;
  return push(m, o);
}

static td_status op_reduce(fmt_machine *m, int argument) {
  fmt_object *args = NULL, *callee = NULL, *result = NULL;
  (void)argument;
  TRY(pop(m, &args));
  TRY(pop(m, &callee));
  const struct fmt_global_row *row = callee->kind == FMT_OBJ_GLOBAL ? callee->u.global->row : NULL;
  if (callee->kind == FMT_OBJ_GLOBAL && !row) return make_enum(m, callee, args);
  if (args->kind != FMT_OBJ_TUPLE)
    return fmt_machine_fail(m, TD_BAD_FILE, "the pickle calls without a tuple of arguments");
  if (!row || !row->reduce) return fmt_machine_fail(m, TD_BAD_FILE, "the pickle calls what is no function");
  TRY(row->reduce(m, &args->u.items, &result));
  return push(m, result);
}

static td_status op_newobj(fmt_machine *m, int argument) {
  fmt_object *args = NULL, *class = NULL;
  (void)argument;
  TRY(pop(m, &args));
  TRY(pop(m, &class));
  if (class->kind != FMT_OBJ_GLOBAL || class->u.global->row || args->kind != FMT_OBJ_TUPLE || args->u.items.count)
    return fmt_machine_fail(m, TD_BAD_FILE, "the pickle makes an instance of what is no class");
  fmt_object *o = fmt_new_object(m, FMT_OBJ_INSTANCE);
  fmt_object **slot = o ? base_vec_push(m->arena, &o->u.items) : NULL;
  if (!slot) return no_memory(m);
  *slot = class;
  return push(m, o);
}

/* BUILD: the state of an instance; attributes of a dictionary (`_metadata`) are dropped. */
static td_status op_build(fmt_machine *m, int argument) {
  fmt_object *state = NULL, *object = NULL;
  (void)argument;
  TRY(pop(m, &state));
  TRY(top(m, FMT_OBJ_INSTANCE, FMT_OBJ_DICT, &object));
  if (object->kind == FMT_OBJ_DICT) return TD_OK;
  if (object->u.items.count != 1) return fmt_machine_fail(m, TD_BAD_FILE, "an instance is built twice");
  fmt_object **slot = base_vec_push(m->arena, &object->u.items);
  if (!slot) return no_memory(m);
  *slot = state;
  return TD_OK;
}

static td_status op_persistent(fmt_machine *m, int argument) {
  fmt_object *id = NULL, *storage = NULL;
  (void)argument;
  TRY(pop(m, &id));
  if (id->kind != FMT_OBJ_TUPLE) return fmt_machine_fail(m, TD_BAD_FILE, "a persistent id is no tuple");
  TRY(fmt_make_storage(m, &id->u.items, &storage));
  return push(m, storage);
}

static const struct {
  op_fn run;
  int argument;
} ops[256] = {
    [0x80] = {op_proto, 0},
    ['.'] = {op_stop, 0},
    ['('] = {op_mark, 0},
    ['N'] = {op_empty, FMT_OBJ_NONE},
    [')'] = {op_empty, FMT_OBJ_TUPLE},
    [']'] = {op_empty, FMT_OBJ_LIST},
    ['}'] = {op_empty, FMT_OBJ_DICT},
    [0x88] = {op_bool, 1},
    [0x89] = {op_bool, 0},
    ['K'] = {op_int, 1},
    ['M'] = {op_int, 2},
    ['J'] = {op_int, 4},
    [0x8a] = {op_long, 0},
    ['G'] = {op_float, 0},
    ['X'] = {op_unicode, 0},
    [0x85] = {op_tuple_of, 1},
    [0x86] = {op_tuple_of, 2},
    [0x87] = {op_tuple_of, 3},
    ['t'] = {op_collect, FMT_OBJ_TUPLE},
    ['l'] = {op_collect, FMT_OBJ_LIST},
    ['d'] = {op_collect, FMT_OBJ_DICT},
    ['e'] = {op_extend, FMT_OBJ_LIST},
    ['u'] = {op_extend, FMT_OBJ_DICT},
    ['a'] = {op_add, FMT_OBJ_LIST},
    ['s'] = {op_add, FMT_OBJ_DICT},
    ['q'] = {op_put, 1},
    ['r'] = {op_put, 4},
    ['h'] = {op_get, 1},
    ['j'] = {op_get, 4},
    ['c'] = {op_global, 0},
    ['R'] = {op_reduce, 0},
    [0x81] = {op_newobj, 0},
    ['b'] = {op_build, 0},
    ['Q'] = {op_persistent, 0},
};

td_status fmt_pickle_read_storages(base_arena *arena, const void *file, size_t size, size_t *at, fmt_storages *list,
                                   fmt_object **out, td_error *err) {
  const uint8_t *start = file;
  fmt_machine m = {.arena = arena, .file = start, .storages = list, .err = err};
  m.at = m.opcode = start + *at;
  m.end = start + size;
  if (size - *at < 2 || *m.at != 0x80)
    return base_fail(err, TD_BAD_FILE, NULL, (int64_t)*at, "no pickle of protocol 2 starts here");
  while (!m.stopped) {
    const uint8_t *opcode = NULL;
    m.opcode = m.at;
    TRY(take(&m, 1, &opcode));
    if (!ops[*opcode].run)
      return fmt_machine_fail(&m, TD_UNSUPPORTED, "pickle instruction 0x%02x is not one that PyTorch writes", *opcode);
    TRY(ops[*opcode].run(&m, ops[*opcode].argument));
  }
  if (m.marks.count || m.stack.count != 1)
    return fmt_machine_fail(&m, TD_BAD_FILE, "the pickle ends with %u objects on its stack", m.stack.count);
  *out = m.stack.at[0];
  *at = (size_t)(m.at - start);
  return TD_OK;
}

td_status fmt_pickle_read(base_arena *arena, const void *file, size_t size, size_t *at, fmt_object **out,
                          td_error *err) {
  return fmt_pickle_read_storages(arena, file, size, at, NULL, out, err);
}
