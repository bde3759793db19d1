/* ir.h -- the one header of this room. */
#ifndef IR_IR_H
#define IR_IR_H
#include "ir/type.h"
#include "ir/op.h"
#include "ir/graph.h"
#include "ir/build.h"
#include "ir/eval.h"
#include "ir/cost.h"
#endif
