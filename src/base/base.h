/* base.h -- the one header of this room: errors, memory, containers, dtypes, sizes, tensors, calls, names of ISAs,
 * programs of loops. */
#ifndef BASE_BASE_H
#define BASE_BASE_H
#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/map.h"
#include "base/size.h"
#include "base/dtype.h"
#include "base/dim.h"
#include "base/tensor.h"
#include "base/attr.h"
#include "base/call.h"
#include "base/isa.h"
#include "base/program.h"
#endif
