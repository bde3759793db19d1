/* chain.c -- fused loops that follow a product move into its epilogue (kernels/epilogue.h), whose kernel calls them on
 * rows of a tile that are still in L1 or L2: the product's result is neither written nor read again. Loops that only a
 * product reads move into it, too, where it computes them block by block in cache.
 *
 *     fused(linear(x, w), y) {program}   -> linear(x, w, y) {chain = program}
 *     linear(fused(x, y) {program}, w)   -> linear(x, w, y) {chain = program, in_front = true}
 *
 * The product then takes the loop's place, after all operands of the loop. The loop must be its only consumer and
 * cover its whole space: writing the product beside the loop's results costs more than reading it again. Several
 * results must fit in cache, so that unfused loops would not bypass it; operands must be dense along the
 * loop's rows: a transposed operand costs more tile by tile than in an unfused loop, which transposes as many rows at
 * a time as pays. */
#include "fuse/fuse_priv.h"
#include "kernels/products/products.h"
#include "kernels/loops/loops.h"

typedef struct chaining {
  ir_graph *graph;
  const fuse_setting *setting;
  base_arena *scratch;
  uint32_t *uses; /* per value, as they were at first: changes leave those of others as they are */
  uint32_t known; /* values that were there at first */
  uint32_t moved; /* loops */
  td_error *err;
} chaining;

/* A loop and the product among its operands. */
typedef struct link {
  ir_node_def loop, product; /* copies: the graph's nodes move */
  uint32_t operand;          /* of the loop: the product's result, or, `front`, what takes the place of its operand */
  bool front;
  base_program p;
} link;

static const ir_node_def *maker_of(const chaining *c, ir_value v) {
  const ir_node made_by = v.id ? ir_value_of(c->graph, v)->node : (ir_node){0};
  return made_by.id ? ir_node_of(c->graph, made_by) : NULL;
}

static bool is_among(ir_value v, const ir_value *values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (values[i].id == v.id) return true;
  return false;
}

/* Joins that the loop's results are made inside of ask for a kernel that writes rows of a pitch. */
static bool is_joined(const chaining *c, const ir_node_def *loop) {
  const ir_block_def *block = ir_block_of(c->graph, loop->parent);
  for (uint32_t i = 0; i < block->nodes.count; i++) {
    const ir_node_def *user = ir_node_of(c->graph, block->nodes.at[i]);
    if (!user->op || !(user->op->flags & IR_OP_JOIN)) continue;
    for (uint32_t k = 0; k < user->in_count; k++)
      if (is_among(user->in[k], loop->out, loop->out_count)) return true;
  }
  return false;
}

/* Operand `k` becomes operand 0, those in front of it move on by one. */
static void put_first(base_program *p, uint32_t k) {
  for (uint32_t i = 0; i < p->count; i++) {
    base_program_op *op = &p->ops[i];
    if (op->kind != BASE_PROGRAM_LOAD) continue;
    if (op->function == k) op->function = 0;
    else if (op->function < k) op->function++;
  }
}

/* Why the loop does not go behind the product; NULL: it does. */
static const char *why_not(const chaining *c, const link *l) {
  const ir_type *made = ir_type_of(c->graph, l->product.out[0]), *out = ir_type_of(c->graph, l->loop.out[0]);
  int64_t words[1 + BASE_PROGRAM_OPS * BASE_PROGRAM_WORDS];
  base_program unused;
  if (base_attr_has(l->product.attrs, l->product.attrs->count - 1)) return "it has a chain already";
  if (l->product.out[0].id >= c->known || c->uses[l->product.out[0].id] != 1) return "it has other consumers";
  if (fuse_stays_loop(c->setting, &l->loop.origins)) return "it is excluded from fusion";
  if (l->product.parent.id != l->loop.parent.id) return "it is in another block";
  if (!ir_type_equal(made, out) || made->dtype != TD_F32) return "the loop has another shape or type";
  if (made->rank < ir_type_of(c->graph, l->product.in[0])->rank) return "it is a product with a vector";
  base_program_write(&l->p, words);
  const char *wrong = kern_chain_read(words, base_program_size(&l->p), false, &unused);
  if (wrong) return wrong;
  if (l->loop.out_count > 1 && sizeof(float) * fuse_elements(made->rank, made->dims) >= (double)KERN_FUSED_STREAMED)
    return "the loop uses non-temporal stores, a product does not";
  for (uint32_t i = 0; i < l->loop.in_count; i++)
    if (i != l->operand && fuse_is_transposed(c->graph, l->loop.in[i])) return "the loop reads a transposed operand";
  const ir_kernel_query *query = fuse_query(c->graph, c->setting->isa, c->scratch, &l->product);
  const kern_row *kernel = query && l->product.op->kernel ? l->product.op->kernel(query) : NULL;
  if (!kernel) return "it has no kernel";
  if (kernel->family == KERN_CONV_TRANSPOSE && base_dim_known(made->dims[made->rank - 1]) &&
      made->dims[made->rank - 1] < KERN_SHORT_ROWS)
    return "the product's rows are short and not contiguous";
  if (!c->setting->compiled && (kernel->family == KERN_DEPTHWISE || kernel->family == KERN_EXPAND_DEPTHWISE))
    return "interpreted, its short rows cost more than they save behind so little work";
  if (!(kernel->flags & KERN_PITCHED_OUT) && is_joined(c, &l->loop))
    return "the concatenation could not be made in place";
  return NULL;
}

/* Does each output pixel of a convolution see the input pixel of its number alone? */
static bool sees_pixels_once(const base_attrs *a) {
  uint32_t spatial, count;
  const int64_t *kernel = base_attr_ints(a, KERN_CONV_KERNEL, &spatial);
  const int64_t *padding = base_attr_ints(a, KERN_CONV_PADDING, &count);
  bool once = true;
  for (uint32_t i = 0; i < spatial; i++)
    once &= kernel[i] == 1 && base_attr_int_at(a, KERN_CONV_STRIDE, (int32_t)i, 1) == 1;
  for (uint32_t i = 0; i < count; i++) once &= padding[i] == 0;
  return once;
}

/* Then a convolution has other kernels: conv_pixels.c, conv_planes.c. */
static bool has_few_weights(const ir_type *x, const base_attrs *a) {
  enum { FEW_CHANNELS = 16 };
  const int64_t channels = base_attr_int(a, KERN_CONV_CHANNELS);
  return channels < FEW_CHANNELS || fuse_elements(1, &x->dims[x->rank - 1]) * (double)channels <= KERN_CONV_FEW_WEIGHTS;
}

/* Elements of a sample of what is made in front of a product: fewer are found in a shared cache as fast as they are
 * made anew into the core's own. */
static double least_in_front(const fuse_setting *setting) {
  if (setting->front_least) return (double)setting->front_least;
  return base_speed_or_default(setting->speed)->shared_bytes / (double)sizeof(float);
}

const char *fuse_why_no_front(const ir_graph *graph, const fuse_setting *setting, base_arena *scratch,
                              const ir_node_def *product) {
  const ir_type *x = ir_type_of(graph, product->in[0]);
  const ir_kernel_query *query = fuse_query(graph, setting->isa, scratch, product);
  const kern_row *kernel = query && product->op->kernel ? product->op->kernel(query) : NULL;
  if (!(product->op->flags & IR_OP_FRONT) || !kernel)
    return "the product after it reads its rows as they are in memory";
  if (base_attr_has(product->attrs, product->attrs->count - 1)) return "the product after it has a chain already";
  if (kernel->family == KERN_CONV &&
      (base_attr_int(product->attrs, KERN_CONV_CHANNELS_FIRST) || base_attr_int(product->attrs, KERN_CONV_GROUPS) != 1))
    return "the product after it does not read whole rows";
  if (kernel->family == KERN_CONV && has_few_weights(x, product->attrs))
    return "the product after it has few weights, and its kernels read pixels as they are in memory";
  if (kernel->family == KERN_CONV && !sees_pixels_once(product->attrs))
    return "overlapping windows of the product after it would recompute it";
  if (kernel->family == KERN_LINEAR && base_attr_int(product->attrs, KERN_LINEAR_STRASSEN))
    return "the product after it sums over rows";
  if (fuse_elements(x->rank - (x->rank > 2), x->dims + (x->rank > 2)) <
      least_in_front(setting)) /* batches run in parts */
    return "its result is small enough to stay in cache for the product after it";
  return NULL;
}

/* Why the loop does not go in front of the product; NULL: it does. */
static const char *why_not_front(const chaining *c, link *l) {
  const ir_type *made = ir_type_of(c->graph, l->loop.out[0]);
  int64_t words[1 + BASE_PROGRAM_OPS * BASE_PROGRAM_WORDS];
  base_program unused;
  if (l->loop.out_count > 1) return "it has several results";
  if (c->uses[l->loop.out[0].id] != 1) return "it has other consumers";
  if (fuse_stays_loop(c->setting, &l->loop.origins)) return "it is excluded from fusion";
  if (l->product.parent.id != l->loop.parent.id) return "it is in another block";
  for (l->operand = 0; l->operand < l->loop.in_count; l->operand++)
    if (ir_type_equal(made, ir_type_of(c->graph, l->loop.in[l->operand]))) break;
  if (l->operand == l->loop.in_count) return "no operand has its shape and type";
  for (uint32_t i = 0; i < l->loop.in_count; i++)
    if (fuse_is_transposed(c->graph, l->loop.in[i])) return "the loop reads a transposed operand";
  put_first(&l->p, l->operand);
  base_program_write(&l->p, words);
  const char *wrong = kern_chain_read(words, base_program_size(&l->p), true, &unused);
  return wrong ? wrong : fuse_why_no_front(c->graph, c->setting, c->scratch, &l->product);
}

/* What is neither written nor read again, where sizes that are not known count FUSE_UNKNOWN. */
static double bytes_saved(const chaining *c, const link *l) {
  const ir_type *t = ir_type_of(c->graph, l->front ? l->loop.out[0] : l->product.out[0]);
  return 2 * sizeof(float) * fuse_elements(t->rank, t->dims);
}

static void tell(const chaining *c, const link *l, const char *why) {
  base_text *log = c->setting->log ? c->setting->log->text : NULL;
  if (!log) return;
  if (why)
    base_text_print(log, "# not fused: \"%s\" and \"%s\": %s\n", ir_node_name(&l->product), ir_node_name(&l->loop),
                    why);
  else
    base_text_print(log, "# chained: \"%s\" %s \"%s\": %.0f bytes less\n", ir_node_name(&l->loop),
                    l->front ? "in front of" : "behind", ir_node_name(&l->product), bytes_saved(c, l));
}

static td_status origins_of(const chaining *c, const link *l, ir_origins *to) {
  const ir_origins *a = &l->product.origins, *b = &l->loop.origins;
  const char **names = base_new(c->scratch, const char *, (size_t)a->count + b->count + 1);
  if (!names) return base_no_memory(c->err, "origins");
  for (uint32_t i = 0; i < a->count + b->count; i++) names[i] = i < a->count ? a->names[i] : b->names[i - a->count];
  *to = (ir_origins){names, a->count + b->count};
  return TD_OK;
}

/* The product with the chain, in the place of the later of both. */
static td_status emit(chaining *c, ir_node loop, ir_node product, const link *l) {
  base_arg args[IR_NODE_ARGS + 2]; /* the two that are added */
  ir_value in[UINT8_MAX] = {{0}};
  int64_t *words = base_new(c->scratch, int64_t, base_program_size(&l->p));
  const uint32_t fixed = l->product.op->max_in - (BASE_PROGRAM_OPERANDS - 1u);
  uint32_t in_count = fixed;
  ir_new_node spec = {.op = l->product.op,
                      .in = in,
                      .args = args,
                      .arg_count = ir_node_args(&l->product, args),
                      .before = l->front ? product : loop};
  const ir_node_def *last = l->front ? &l->product : &l->loop;
  ir_value first;
  ir_node node;
  if (!words) return base_no_memory(c->err, "a chain");
  base_program_write(&l->p, words);
  if (l->front) args[spec.arg_count++] = ARG_BOOL("in_front", true);
  args[spec.arg_count++] = ARG_INTS("chain", words, base_program_size(&l->p));
  memcpy(in, l->product.in, l->product.in_count * sizeof *in);
  if (l->front) in[0] = l->loop.in[l->operand];
  for (uint32_t i = 0; i < l->loop.in_count; i++)
    if (i != l->operand) in[in_count++] = l->loop.in[i];
  spec.in_count = in_count > fixed ? in_count : l->product.in_count;
  spec.out_count = last->out_count;
  TRY(origins_of(c, l, &spec.origins));
  TRY(ir_add_node(c->graph, l->loop.parent, &spec, &node, &first, c->err));
  for (uint32_t k = 0; k < spec.out_count; k++) {
    const ir_value made = ir_node_of(c->graph, node)->out[k];
    ir_value_of(c->graph, made)->name = ir_value_of(c->graph, last->out[k])->name;
    ir_value_of(c->graph, last->out[k])->name = NULL;
    TRY(ir_replace_value(c->graph, last->out[k], made, c->err));
  }
  ir_remove_node(c->graph, l->front ? product : loop);
  ir_remove_node(c->graph, l->front ? loop : product);
  c->moved++;
  return TD_OK;
}

/* Moves the loop behind the first of its operands that is a product which takes it. */
static td_status visit(chaining *c, ir_node id) {
  link *l = base_new(c->scratch, link, 1);
  uint32_t count;
  if (!l) return base_no_memory(c->err, "a chain");
  ir_refresh(c->graph, id);
  l->loop = *ir_node_of(c->graph, id);
  for (l->operand = 0; l->operand < l->loop.in_count; l->operand++) {
    const ir_value v = l->loop.in[l->operand];
    const ir_node_def *maker = maker_of(c, v);
    if (!maker || !maker->op || !(maker->op->flags & IR_OP_CHAIN)) continue;
    l->product = *maker;
    const int64_t *words = base_attr_ints(l->loop.attrs, 0, &count);
    if (base_program_read(words, count, &l->p)) return TD_OK;
    put_first(&l->p, l->operand);
    const char *why = why_not(c, l);
    tell(c, l, why);
    if (!why) return emit(c, id, ir_value_of(c->graph, v)->node, l);
  }
  return TD_OK;
}

/* Moves the loop that makes the product's operand 0 in front of it. */
static td_status visit_product(chaining *c, ir_node id) {
  link *l = base_new(c->scratch, link, 1);
  uint32_t count;
  if (!l) return base_no_memory(c->err, "a chain");
  ir_refresh(c->graph, id);
  l->product = *ir_node_of(c->graph, id);
  l->front = true;
  const ir_value x = l->product.in[0];
  const ir_node_def *maker = maker_of(c, x);
  if (!maker || !maker->op || !(maker->op->flags & IR_OP_LOOP)) return TD_OK;
  l->loop = *maker;
  const int64_t *words = base_attr_ints(l->loop.attrs, 0, &count);
  if (base_program_read(words, count, &l->p)) return TD_OK;
  const char *why = why_not_front(c, l);
  tell(c, l, why);
  return why ? TD_OK : emit(c, ir_value_of(c->graph, x)->node, id, l);
}

/* A loop over elements: loops over rows are in no chain. */
static bool is_loop(const ir_op *op) { return op->flags & IR_OP_LOOP && op->flags & IR_OP_ELEMENTWISE; }
static bool has_chain(const ir_op *op) { return op->flags & IR_OP_CHAIN; }

/* Visits the nodes whose operator `is_meant`. */
static td_status visit_all(chaining *c, bool (*is_meant)(const ir_op *op),
                           td_status (*to_visit)(chaining *c, ir_node id)) {
  c->uses = base_new(c->scratch, uint32_t, (size_t)c->graph->values.count + 1);
  if (!c->uses) return base_no_memory(c->err, "chains");
  ir_count_uses(c->graph, c->uses);
  for (uint32_t i = 1, count = c->graph->nodes.count; i < count; i++) {
    const ir_op *op = ir_node_of(c->graph, (ir_node){i})->op;
    if (op && is_meant(op)) TRY(to_visit(c, (ir_node){i}));
  }
  ir_settle(c->graph);
  return TD_OK;
}

td_status fuse_chains(ir_graph *graph, const fuse_setting *setting, uint32_t *changes, td_error *err) {
  chaining c = {.graph = graph, .setting = setting, .known = graph->values.count, .err = err};
  c.scratch = base_arena_new_brief(base_arena_allocator(graph->arena));
  td_status status = c.scratch ? visit_all(&c, is_loop, visit) : base_no_memory(err, "chains");
  if (status == TD_OK) status = visit_all(&c, has_chain, visit_product);
  if (status == TD_OK) *changes += c.moved;
  base_arena_free(c.scratch);
  return status;
}
