/* graphs.h -- small graphs that together have everything that a plan can say. */
#ifndef TESTS_PLAN_GRAPHS_H
#define TESTS_PLAN_GRAPHS_H

static const char *const saved_graphs[] = {
    /* open sizes, views, packed weights, a fused chain, a default */
    "input %0 \"x\": f32[batch, 4]\n"
    "const %7 \"d\": f32[3] = {1, -2, 3}\n"
    "input %6 \"y\": f32[3] = %7\n"
    "const %1 \"w\": f32[4, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n"
    "%2 = aten::matmul(%0, %1): f32[batch, 3]   # \"product\"\n"
    "%3 = aten::add(%2, %6): f32[batch, 3]   # \"sum\"\n"
    "%4 = aten::tanh(%3): f32[batch, 3]   # \"squash\"\n"
    "%5 = aten::mul(%4, %3): f32[batch, 3]   # \"gate\"\n"
    "output \"out\" %5\n",
    /* parts of a join, a transposed view */
    "input %0 \"x\": f32[2, 3]\n"
    "%1 = aten::relu(%0): f32[2, 3]\n"
    "%2 = aten::neg(%0): f32[2, 3]\n"
    "%3 = aten::cat(%1, %2) {dim = 1}: f32[2, 6]\n"
    "%4 = aten::permute(%3) {dims = [1, 0]}: f32[6, 2]\n"
    "%5 = aten::_softmax(%4) {dim = 1}: f32[6, 2]\n"
    "output \"out\" %5\n",
    /* a loop in a branch */
    "input %0 \"n\": i64[]\n"
    "input %1 \"x\": f32[2]\n"
    "input %9 \"go\": bool[]\n"
    "const %6: bool[] = {1}\n"
    "%2 = prim::If(%9): f32[2] {\n"
    "  block() {\n"
    "    %3 = prim::Loop(%0, -, %1): f32[2] {\n"
    "      block(%4: i64[], %5: f32[2]) {\n"
    "        %7 = aten::add(%5, %5): f32[2]\n"
    "        yield %6, %7\n"
    "      }\n"
    "    }\n"
    "    yield %3\n"
    "  }\n"
    "  block() {\n"
    "    %8 = aten::neg(%1): f32[2]\n"
    "    yield %8\n"
    "  }\n"
    "}\n"
    "output \"out\" %2\n",
    /* tasks */
    "input %0 \"x\": f32[2]\n"
    "%1 = aten::add(%0, %0)\n"
    "%2 = prim::fork(): future(f32[2]) {\n"
    "  block() {\n"
    "    %3 = aten::mul(%1, %0)\n"
    "    yield %3\n"
    "  }\n"
    "}\n"
    "%4 = aten::neg(%1)\n"
    "%5 = prim::wait(%2)\n"
    "%6 = aten::add(%4, %5)\n"
    "output \"out\" %6\n",
    /* state, and sizes that only running tells */
    "input %0 \"x\": f32[3]\n"
    "const %1: f32[3] = {1, 2, 3}\n"
    "state %2 \"h\": f32[3] = %1\n"
    "%3 = aten::add(%2, %0): f32[3]\n"
    "%4 = aten::nonzero(%3): i64[$u0, 1]\n"
    "output \"sum\" %3\n"
    "output \"where\" %4\n"
    "store %2 = %3\n",
};
enum { SAVED_GRAPHS = sizeof saved_graphs / sizeof *saved_graphs };
#endif
