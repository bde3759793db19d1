/* ast_priv.h -- the source text of a TorchScript archive as a tree. Nothing is known of types or of what names mean:
 * a type is written, and kept, as an expression. Strings that need no escapes are views into the text, which must
 * outlive the tree. */
#ifndef IMPORT_TORCHSCRIPT_AST_PRIV_H
#define IMPORT_TORCHSCRIPT_AST_PRIV_H
#include "base/base.h"

/* Expressions inside expressions, blocks inside blocks. PyTorch's writer stays far below: it breaks long lines. */
enum { TS_MAX_DEPTH = 200 };

/* A place in one source file: how an error, and the origin of a node, is found. */
typedef struct ts_place {
  uint32_t offset; /* bytes from the start of the text */
  uint32_t line;   /* 1 is the first */
} ts_place;

typedef enum ts_expr_kind {
  TS_NONE,
  TS_TRUE,
  TS_FALSE,
  TS_INT,
  TS_FLOAT,
  TS_COMPLEX, /* number.f: the imaginary part */
  TS_STRING,
  TS_NAME,
  TS_ATTRIBUTE, /* items[0] . text */
  TS_CALL,      /* items[0] ( items[1..], keywords ) */
  TS_INDEX,     /* items[0] [ items[1..] ] */
  TS_SLICE,     /* inside an index: items[0] : items[1], either may be NULL */
  TS_TUPLE,
  TS_LIST,
  TS_DICT,  /* key, value, key, value */
  TS_UNARY, /* text: "-", "not", "~" */
  TS_BINARY /* text: "+", "==", "and", ... */
} ts_expr_kind;

typedef struct ts_expr ts_expr;
struct ts_expr {
  ts_expr_kind kind;
  uint32_t count; /* of items */
  ts_place place;
  base_str text; /* of NAME, STRING, ATTRIBUTE, operators */
  union {
    int64_t i;
    double f; /* of FLOAT and COMPLEX */
  } number;
  ts_expr **items;
  base_str *keywords; /* of a CALL: one for each item, of length 0 where it is positional; NULL: all are */
};

typedef enum ts_stmt_kind {
  TS_ASSIGN, /* targets = values; `unpack` when the targets end with a comma; `type` when one is given */
  TS_STORE,  /* targets[0] (an ATTRIBUTE or INDEX) = values[0] */
  TS_EXPR,   /* values[0], for its effect */
  TS_RETURN, /* values; none: None */
  TS_PASS,
  TS_IF,    /* values[0]; body, other */
  TS_WHILE, /* values[0]; body */
  TS_FOR,   /* targets[0] in values[0]; body */
  TS_WITH,  /* values[0] as targets[0] (may be none); body */
  TS_DEF    /* a closure: function */
} ts_stmt_kind;

typedef struct ts_stmt ts_stmt;
typedef struct ts_function ts_function;
typedef BASE_VEC(ts_stmt) ts_block;

struct ts_stmt {
  ts_stmt_kind kind;
  ts_place place;
  ts_expr **targets, **values;
  uint32_t target_count, value_count;
  bool unpack;
  ts_expr *type;
  ts_block body, other;
  ts_function *function;
};

typedef struct ts_param {
  base_str name;
  ts_expr *type, *fallback; /* NULL: not given */
} ts_param;

struct ts_function {
  base_str name;
  ts_place place;
  ts_param *params;
  uint32_t param_count;
  ts_expr *result; /* its type, or NULL */
  ts_block body;
  /* Filled when somebody asks first: name -> offset of its last use. */
  base_map last_use;
  bool scanned;
  bool runs_inline; /* forked, it changes what others see: it runs where it is forked */
};

/* `name : type`, `name : Final[T] = value`, `NAME = value` of a class. */
typedef struct ts_field {
  base_str name;
  ts_place place;
  ts_expr *type, *value; /* either may be NULL */
} ts_field;

typedef struct ts_class_def {
  base_str name, base; /* base: "Module", "NamedTuple", "Enum", "Interface", "ModuleInterface" or empty */
  ts_place place;
  BASE_VEC(ts_field) fields;
  BASE_VEC(ts_function *) methods;
} ts_class_def;

typedef struct ts_ranges ts_ranges;
typedef struct ts_source {
  const char *file;  /* "code/__torch__/net.py" */
  ts_ranges *ranges; /* where the user wrote it (ranges.c); NULL: nobody has asked yet */
  base_str text;
  BASE_VEC(ts_class_def *) classes;
  BASE_VEC(ts_function *) functions;
} ts_source;

/* Reads `text` into `*source`, whose `file` is set by the caller. TD_BAD_FILE with file, line and offset. Memory: at
 * most 400 bytes per byte of text. */
td_status ts_parse(base_arena *arena, base_str text, ts_source *source, td_error *err);
/* One type, as it stands in a pickle's type tag ("Dict[str, int]"). */
td_status ts_parse_type(base_arena *arena, base_str text, const char *file, ts_expr **type, td_error *err);
#endif
