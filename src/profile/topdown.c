/* topdown.c -- events of families of CPUs and the formulas over them, as Intel's and AMD's guides to top-down analysis
 * have them. Codes are those of perf's raw events: event | umask << 8 | edge << 18 | any << 21 | inv << 23 | cmask <<
 * 24; bits 11:8 of AMD's event numbers stand at 35:32.
 *
 * A family's groups can be counted without multiplexing; what several need is in each of them again under one number,
 * and the last group's count holds: steady state gives all the same. */
#include "profile/topdown.h"

#include <math.h>
#include <string.h>

const prof_node prof_nodes[PROF_NODES] = {
    [PROF_FRONTEND] = {"FE", "Frontend bound", 1, PROF_FRONTEND, 0.15, "instructions come too slowly"},
    [PROF_FETCH_LATENCY] = {"FE", "Fetch latency", 2, PROF_FRONTEND, 0.10,
                            "code does not fit its cache: fewer different kernels, or more work in each call"},
    [PROF_FETCH_BANDWIDTH] = {"FE", "Fetch bandwidth", 2, PROF_FRONTEND, 0.20,
                              "decoders are the limit: wider vectors (--isa) do more with each instruction"},
    [PROF_BAD_SPECULATION] = {"BAD", "Bad speculation", 1, PROF_BAD_SPECULATION, 0.15, "work is thrown away"},
    [PROF_MISPREDICTS] = {"BAD", "Branch mispredicts", 2, PROF_BAD_SPECULATION, 0.10,
                          "branches that depend on data: look at control flow and gathers of the model"},
    [PROF_CLEARS] = {"BAD", "Machine clears", 2, PROF_BAD_SPECULATION, 0.10,
                     "memory that several threads write side by side, or numbers too small for normal form"},
    [PROF_BACKEND] = {"BE", "Backend bound", 1, PROF_BACKEND, 0.20, "operations wait for data or for units"},
    [PROF_MEMORY] = {"BE/Mem", "Memory bound", 2, PROF_BACKEND, 0.20, "data comes too slowly"},
    [PROF_L1] = {"BE/Mem", "L1 bound", 3, PROF_MEMORY, 0.10, "data is near, but loads are many: larger tiles"},
    [PROF_L2] = {"BE/Mem", "L2 bound", 3, PROF_MEMORY, 0.05, "tiles do not fit the first cache: `treadle tune`"},
    [PROF_L3] = {"BE/Mem", "L3 bound", 3, PROF_MEMORY, 0.05,
                 "what passes between steps leaves the core's caches: smaller batches, or more fusion"},
    [PROF_DRAM] = {"BE/Mem", "DRAM bound", 3, PROF_MEMORY, 0.10,
                   "memory itself is the limit: fewer threads on it, larger batches, or weights of fewer bytes (bf16, "
                   "int8)"},
    [PROF_DRAM_BANDWIDTH] = {"BE/Mem", "DRAM bandwidth", 4, PROF_DRAM, 0.20,
                             "memory is used to its full width: weights of fewer bytes, or larger batches"},
    [PROF_DRAM_LATENCY] = {"BE/Mem", "DRAM latency", 4, PROF_DRAM, 0.10,
                           "single reads are waited for: gathers and small steps, whose data nobody fetches ahead"},
    [PROF_STORES] = {"BE/Mem", "Store bound", 3, PROF_MEMORY, 0.20,
                     "writes are the limit: fuse what is written and read"},
    [PROF_CORE] = {"BE/Core", "Core bound", 2, PROF_BACKEND, 0.10,
                   "the units that compute are the limit: nothing is left but less arithmetic (--math fast, int8)"},
    [PROF_DIVIDER] = {"BE/Core", "Divider", 3, PROF_CORE, 0.20, "divisions and roots: multiply by reciprocals"},
    [PROF_PORTS] = {"BE/Core", "Ports utilization", 3, PROF_CORE, 0.15,
                    "operations depend on one another: more independent sums"},
    [PROF_AMX] = {"BE/Core", "AMX busy", 3, PROF_CORE, 0.50, "the matrix unit is busy: as it should be"},
    [PROF_RETIRING] = {"RET", "Retiring", 1, PROF_RETIRING, 0.70, "the core does useful work all the time"},
    [PROF_LIGHT] = {"RET", "Light operations", 2, PROF_RETIRING, 0.60,
                    "simple instructions fill the core: wider vectors do more with each"},
    [PROF_HEAVY] = {"RET", "Heavy operations", 2, PROF_RETIRING, 0.10, "instructions of many operations: microcode"},
    [PROF_SMT] = {"SMT", "SMT contention", 1, PROF_SMT, 0.10,
                  "the core's other thread takes the slots: one thread for each core is enough"},
};

static double positive(double x) { return x > 0 ? x : 0; }
static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

static void unknown(double *nodes) {
  for (int i = 0; i < PROF_NODES; i++) nodes[i] = NAN;
}

/* What is left of parents, once one child is known. */
static void split(double *nodes) {
  nodes[PROF_FETCH_BANDWIDTH] = positive(nodes[PROF_FRONTEND] - nodes[PROF_FETCH_LATENCY]);
  nodes[PROF_CLEARS] = positive(nodes[PROF_BAD_SPECULATION] - nodes[PROF_MISPREDICTS]);
  nodes[PROF_CORE] = positive(nodes[PROF_BACKEND] - nodes[PROF_MEMORY]);
  nodes[PROF_LIGHT] = positive(nodes[PROF_RETIRING] - nodes[PROF_HEAVY]);
}

/* ---- Skylake-SP, Cascade Lake; what Ice Lake has in common with them ---- */

enum {
  CLK,
  CLK_ANY,
  IDQ,
  ISSUED,
  RETIRED,
  RECOVERY,
  RECOVERY_ANY,
  CYCLES_0,
  MISP,
  CLEARS,
  MEM_ANY,
  STALLS_TOTAL,
  STALLS_L1,
  STALLS_L2,
  STALLS_L3,
  BY_STORES,
  PORTS_1,
  PORTS_2,
  PORTS_0,
  DIVIDER,
  L2_HIT,
  FB_HIT,
  L1_MISS,
  FB_FULL,
  FUSED,
  INST,
  SLOTS,
  M_RET,
  M_BAD,
  M_FE,
  M_BE,
  DROPPING,
  MS_UOPS,
  DEC0,
  DEC0_1,
  MITE,
  M_HEAVY,
  M_MISP,
  M_LATENCY,
  M_MEM,
  READS,     /* cycles with a read of data from beyond the core under way */
  MANY_READS /* with four and more */
};
_Static_assert((int)MANY_READS < (int)PROF_MOST_EVENTS, "room for all counts");

/* Level 4: what DRAM is waited for with. */
static void solve_reads(const double *c, double *n) {
  n[PROF_DRAM_BANDWIDTH] = ratio(c[MANY_READS], c[CLK]);
  n[PROF_DRAM_LATENCY] = ratio(positive(c[READS] - c[MANY_READS]), c[CLK]);
}

/* Level 3 of Skylake and Ice Lake. */
static void solve_stalls(const double *c, double *n) {
  const double h = c[L2_HIT] * (1 + ratio(c[FB_HIT], c[L1_MISS])), cycles = c[CLK];
  const double beyond_l1 = c[STALLS_L1] - c[STALLS_L2], l2 = ratio(h, h + c[FB_FULL]) * beyond_l1;
  const double idle = c[DIVIDER] >= c[STALLS_TOTAL] - c[MEM_ANY] ? 0 : c[PORTS_0];
  n[PROF_L1] = ratio(positive(c[MEM_ANY] - c[STALLS_L1]), cycles);
  n[PROF_L2] = ratio(positive(l2), cycles);
  n[PROF_L3] = ratio(positive(c[STALLS_L2] - c[STALLS_L3]), cycles);
  n[PROF_DRAM] = ratio(positive(c[STALLS_L3] + beyond_l1 - l2), cycles);
  n[PROF_STORES] = ratio(c[BY_STORES], cycles);
  n[PROF_DIVIDER] = ratio(c[DIVIDER], cycles);
  n[PROF_PORTS] = ratio(idle + c[PORTS_1] + n[PROF_RETIRING] * c[PORTS_2], cycles);
  solve_reads(c, n);
}

static double memory_part(const double *c, const double *n) {
  return ratio(c[MEM_ANY] + c[BY_STORES], c[STALLS_TOTAL] + c[PORTS_1] + n[PROF_RETIRING] * c[PORTS_2] + c[BY_STORES]);
}

static void solve_skylake(const double *c, bool smt, double *n) {
  const double slots = 4 * (smt ? c[CLK_ANY] / 2 : c[CLK]);
  const double lost = 4 * (smt ? c[RECOVERY_ANY] / 2 : c[RECOVERY]);
  unknown(n);
  n[PROF_FRONTEND] = ratio(c[IDQ], slots);
  n[PROF_BAD_SPECULATION] = ratio(positive(c[ISSUED] - c[RETIRED] + lost), slots);
  n[PROF_RETIRING] = ratio(c[RETIRED], slots);
  n[PROF_BACKEND] = positive(1 - n[PROF_FRONTEND] - ratio(c[ISSUED] + lost, slots));
  n[PROF_FETCH_LATENCY] = ratio(4 * c[CYCLES_0], slots);
  n[PROF_MISPREDICTS] = n[PROF_BAD_SPECULATION] * ratio(c[MISP], c[MISP] + c[CLEARS]);
  n[PROF_MEMORY] = n[PROF_BACKEND] * memory_part(c, n);
  n[PROF_HEAVY] = ratio(positive(c[RETIRED] + c[FUSED] - c[INST]), slots);
  split(n);
  solve_stalls(c, n);
}

static const sys_event skylake_events[PROF_MOST_EVENTS] = {
    [CLK] = {"CLK", SYS_RAW, 0x3c},
    [CLK_ANY] = {"CLK_ANY", SYS_RAW, 0x20003c},
    [IDQ] = {"IDQ_UOPS_NOT_DELIVERED.CORE", SYS_RAW, 0x19c},
    [ISSUED] = {"UOPS_ISSUED.ANY", SYS_RAW, 0x10e},
    [RETIRED] = {"UOPS_RETIRED.RETIRE_SLOTS", SYS_RAW, 0x2c2},
    [RECOVERY] = {"INT_MISC.RECOVERY_CYCLES", SYS_RAW, 0x10d},
    [RECOVERY_ANY] = {"INT_MISC.RECOVERY_CYCLES_ANY", SYS_RAW, 0x20010d},
    [CYCLES_0] = {"IDQ.CYCLES_0_UOPS", SYS_RAW, 0x400019c},
    [MISP] = {"BR_MISP_RETIRED", SYS_RAW, 0xc5},
    [CLEARS] = {"MACHINE_CLEARS", SYS_RAW, 0x10401c3},
    [MEM_ANY] = {"STALLS_MEM_ANY", SYS_RAW, 0x140014a3},
    [STALLS_TOTAL] = {"STALLS_TOTAL", SYS_RAW, 0x40004a3},
    [STALLS_L1] = {"STALLS_L1D_MISS", SYS_RAW, 0xc000ca3},
    [STALLS_L2] = {"STALLS_L2_MISS", SYS_RAW, 0x50005a3},
    [STALLS_L3] = {"STALLS_L3_MISS", SYS_RAW, 0x60006a3},
    [BY_STORES] = {"BOUND_ON_STORES", SYS_RAW, 0x40a6},
    [PORTS_1] = {"1_PORTS_UTIL", SYS_RAW, 0x2a6},
    [PORTS_2] = {"2_PORTS_UTIL", SYS_RAW, 0x4a6},
    [PORTS_0] = {"0_PORTS_UTIL", SYS_RAW, 0x1a6},
    [DIVIDER] = {"DIVIDER_ACTIVE", SYS_RAW, 0x1000114},
    [L2_HIT] = {"MEM_LOAD.L2_HIT", SYS_RAW, 0x2d1},
    [FB_HIT] = {"MEM_LOAD.FB_HIT", SYS_RAW, 0x40d1},
    [L1_MISS] = {"MEM_LOAD.L1_MISS", SYS_RAW, 0x8d1},
    [FB_FULL] = {"L1D_PEND_MISS.FB_FULL", SYS_RAW, 0x1000248},
    [FUSED] = {"UOPS_RETIRED.MACRO_FUSED", SYS_RAW, 0x4c2},
    [INST] = {"INST_RETIRED", SYS_RAW, 0xc0},
    [READS] = {"OFFCORE_REQUESTS_OUTSTANDING.ALL_DATA_RD", SYS_RAW, 0x1000860},
    [MANY_READS] = {"OFFCORE_REQUESTS_OUTSTANDING.ALL_DATA_RD, 4 and more", SYS_RAW, 0x4000860},
};
/* Four general counters are there with SMT, and fixed ones for cycles and instructions. */
static const prof_group skylake_groups[] = {
    {{CLK, IDQ, ISSUED, RETIRED, RECOVERY}, 5, 1},
    {{CLK_ANY, RECOVERY_ANY, CYCLES_0, MISP}, 4, 1},
    {{CLEARS, MEM_ANY, STALLS_TOTAL, BY_STORES}, 4, 2},
    {{PORTS_1, PORTS_2, PORTS_0, DIVIDER}, 4, 2},
    {{STALLS_L1, STALLS_L2, STALLS_L3, FB_FULL}, 4, 3},
    {{L2_HIT, FB_HIT, L1_MISS, FUSED, INST}, 5, 2},
    {{CLK, READS, MANY_READS}, 3, 4},
};

/* ---- Ice Lake-SP ---- */

static double metric(const double *c, int which) { return ratio(c[which], c[M_RET] + c[M_BAD] + c[M_FE] + c[M_BE]); }

static void solve_ice_lake(const double *c, bool smt, double *n) {
  (void)smt; /* slots are each thread's */
  const double slots = c[SLOTS], dropped = ratio(c[DROPPING], slots);
  unknown(n);
  n[PROF_FRONTEND] = positive(metric(c, M_FE) - dropped);
  n[PROF_RETIRING] = metric(c, M_RET);
  n[PROF_BACKEND] = metric(c, M_BE) + ratio(5 * c[CLEARS], slots);
  n[PROF_BAD_SPECULATION] = positive(1 - n[PROF_FRONTEND] - n[PROF_RETIRING] - n[PROF_BACKEND]);
  n[PROF_FETCH_LATENCY] = ratio(positive(5 * c[CYCLES_0] - c[DROPPING]), slots);
  n[PROF_MISPREDICTS] = n[PROF_BAD_SPECULATION] * ratio(c[MISP], c[MISP] + c[CLEARS]);
  n[PROF_MEMORY] = n[PROF_BACKEND] * memory_part(c, n);
  n[PROF_HEAVY] = ratio(ratio(c[RETIRED], c[ISSUED]) * c[MS_UOPS], slots) +
                  n[PROF_RETIRING] * ratio(positive(c[DEC0] - c[DEC0_1]), c[MITE]);
  split(n);
  solve_stalls(c, n);
}

static const sys_event ice_lake_events[PROF_MOST_EVENTS] = {
    [CLK] = {"CLK", SYS_RAW, 0x3c},
    [ISSUED] = {"UOPS_ISSUED.ANY", SYS_RAW, 0x10e},
    [RETIRED] = {"UOPS_RETIRED.SLOTS", SYS_RAW, 0x2c2},
    [CYCLES_0] = {"IDQ.CYCLES_0_UOPS", SYS_RAW, 0x500019c},
    [MISP] = {"BR_MISP_RETIRED", SYS_RAW, 0xc5},
    [CLEARS] = {"INT_MISC.CLEARS_COUNT", SYS_RAW, 0x104010d},
    [MEM_ANY] = {"STALLS_MEM_ANY", SYS_RAW, 0x140014a3},
    [STALLS_TOTAL] = {"STALLS_TOTAL", SYS_RAW, 0x40004a3},
    [STALLS_L1] = {"STALLS_L1D_MISS", SYS_RAW, 0xc000ca3},
    [STALLS_L2] = {"STALLS_L2_MISS", SYS_RAW, 0x50005a3},
    [STALLS_L3] = {"STALLS_L3_MISS", SYS_RAW, 0x60006a3},
    [BY_STORES] = {"BOUND_ON_STORES", SYS_RAW, 0x20040a6},
    [PORTS_1] = {"1_PORTS_UTIL", SYS_RAW, 0x2a6},
    [PORTS_2] = {"2_PORTS_UTIL", SYS_RAW, 0x4a6},
    [PORTS_0] = {"0_PORTS_UTIL", SYS_RAW, 0x80a6},
    [DIVIDER] = {"DIVIDER_ACTIVE", SYS_RAW, 0x1000914},
    [L2_HIT] = {"MEM_LOAD.L2_HIT", SYS_RAW, 0x2d1},
    [FB_HIT] = {"MEM_LOAD.FB_HIT", SYS_RAW, 0x40d1},
    [L1_MISS] = {"MEM_LOAD.L1_MISS", SYS_RAW, 0x8d1},
    [FB_FULL] = {"L1D_PEND_MISS.FB_FULL_PERIODS", SYS_RAW, 0x1040248},
    [SLOTS] = {"SLOTS", SYS_RAW, 0x400},
    [M_RET] = {"retiring", SYS_RAW, 0x8000},
    [M_BAD] = {"bad speculation", SYS_RAW, 0x8100},
    [M_FE] = {"frontend bound", SYS_RAW, 0x8200},
    [M_BE] = {"backend bound", SYS_RAW, 0x8300},
    [DROPPING] = {"INT_MISC.UOP_DROPPING", SYS_RAW, 0x100d},
    [MS_UOPS] = {"IDQ.MS_UOPS", SYS_RAW, 0x3079},
    [DEC0] = {"DECODED.DEC0", SYS_RAW, 0x156},
    [DEC0_1] = {"DECODED.DEC0 alone", SYS_RAW, 0x1000156},
    [MITE] = {"IDQ.MITE_UOPS", SYS_RAW, 0x479},
    [READS] = {"OFFCORE_REQUESTS_OUTSTANDING.ALL_DATA_RD", SYS_RAW, 0x1000860},
    [MANY_READS] = {"OFFCORE_REQUESTS_OUTSTANDING.ALL_DATA_RD, 4 and more", SYS_RAW, 0x4000860},
};
static const prof_group ice_lake_groups[] = {
    {{SLOTS, M_RET, M_BAD, M_FE, M_BE, DROPPING, CLEARS}, 7, 1},
    {{CLK, CYCLES_0, MISP, ISSUED, RETIRED}, 5, 2},
    {{MEM_ANY, STALLS_TOTAL, BY_STORES, PORTS_1, PORTS_2, PORTS_0}, 6, 2},
    {{STALLS_L1, STALLS_L2, STALLS_L3, FB_FULL}, 4, 3},
    {{L2_HIT, FB_HIT, L1_MISS, DIVIDER}, 4, 3},
    {{MS_UOPS, DEC0, DEC0_1, MITE}, 4, 2},
    {{CLK, READS, MANY_READS}, 3, 4},
};

/* ---- Sapphire Rapids, Emerald Rapids: level 2 comes from the core itself; PORTS_2 counts two or three ---- */

enum { AMX = DEC0, LOADS = MEM_ANY };

static void solve_sapphire(const double *c, bool smt, double *n) {
  (void)smt;
  const double dropped = ratio(c[DROPPING], c[SLOTS]), cycles = c[CLK];
  unknown(n);
  n[PROF_FRONTEND] = positive(metric(c, M_FE) - dropped);
  n[PROF_RETIRING] = metric(c, M_RET);
  n[PROF_BACKEND] = metric(c, M_BE);
  n[PROF_BAD_SPECULATION] = positive(1 - n[PROF_FRONTEND] - n[PROF_RETIRING] - n[PROF_BACKEND]);
  n[PROF_FETCH_LATENCY] = positive(metric(c, M_LATENCY) - dropped);
  n[PROF_MISPREDICTS] = metric(c, M_MISP);
  n[PROF_MEMORY] = metric(c, M_MEM);
  n[PROF_HEAVY] = metric(c, M_HEAVY);
  split(n);
  n[PROF_L1] = ratio(positive(c[LOADS] - c[STALLS_L1]), cycles);
  n[PROF_L2] = ratio(positive(c[STALLS_L1] - c[STALLS_L2]), cycles);
  n[PROF_L3] = ratio(positive(c[STALLS_L2] - c[STALLS_L3]), cycles);
  n[PROF_DRAM] = ratio(c[STALLS_L3], cycles);
  n[PROF_STORES] = ratio(c[BY_STORES], cycles);
  n[PROF_DIVIDER] = ratio(c[DIVIDER], cycles);
  n[PROF_AMX] = ratio(c[AMX], cycles);
  n[PROF_PORTS] = ratio(c[PORTS_1] + n[PROF_RETIRING] * c[PORTS_2], cycles);
  solve_reads(c, n);
}

static const sys_event sapphire_events[PROF_MOST_EVENTS] = {
    [CLK] = {"CLK", SYS_RAW, 0x3c},
    [LOADS] = {"EXE_ACTIVITY.BOUND_ON_LOADS", SYS_RAW, 0x50021a6},
    [STALLS_L1] = {"MEMORY_ACTIVITY.STALLS_L1D_MISS", SYS_RAW, 0x3000347},
    [STALLS_L2] = {"MEMORY_ACTIVITY.STALLS_L2_MISS", SYS_RAW, 0x5000547},
    [STALLS_L3] = {"MEMORY_ACTIVITY.STALLS_L3_MISS", SYS_RAW, 0x9000947},
    [BY_STORES] = {"BOUND_ON_STORES", SYS_RAW, 0x20040a6},
    [PORTS_1] = {"1_PORTS_UTIL", SYS_RAW, 0x2a6},
    [PORTS_2] = {"2_3_PORTS_UTIL", SYS_RAW, 0xca6},
    [DIVIDER] = {"DIV_ACTIVE", SYS_RAW, 0x10009b0},
    [SLOTS] = {"SLOTS", SYS_RAW, 0x400},
    [M_RET] = {"retiring", SYS_RAW, 0x8000},
    [M_BAD] = {"bad speculation", SYS_RAW, 0x8100},
    [M_FE] = {"frontend bound", SYS_RAW, 0x8200},
    [M_BE] = {"backend bound", SYS_RAW, 0x8300},
    [M_HEAVY] = {"heavy operations", SYS_RAW, 0x8400},
    [M_MISP] = {"branch mispredicts", SYS_RAW, 0x8500},
    [M_LATENCY] = {"fetch latency", SYS_RAW, 0x8600},
    [M_MEM] = {"memory bound", SYS_RAW, 0x8700},
    [DROPPING] = {"INT_MISC.UOP_DROPPING", SYS_RAW, 0x10ad},
    [AMX] = {"EXE.AMX_BUSY", SYS_RAW, 0x2b7},
    [READS] = {"OFFCORE_REQUESTS_OUTSTANDING.DATA_RD", SYS_RAW, 0x1000820},
    [MANY_READS] = {"OFFCORE_REQUESTS_OUTSTANDING.DATA_RD, 4 and more", SYS_RAW, 0x4000820},
};
static const prof_group sapphire_groups[] = {
    {{SLOTS, M_RET, M_BAD, M_FE, M_BE, M_HEAVY, M_MISP, M_LATENCY, M_MEM}, 9, 1},
    {{CLK, DROPPING, LOADS, BY_STORES, PORTS_1, PORTS_2}, 6, 1},
    {{STALLS_L1, STALLS_L2, STALLS_L3, DIVIDER, AMX}, 5, 3},
    {{CLK, READS, MANY_READS}, 3, 4},
};

/* ---- Zen 4 and Zen 5 ---- */

enum {
  Z_CLK,
  Z_FE,
  Z_BE,
  Z_SMT,
  Z_FE_FULL,
  Z_DISPATCHED,
  Z_RETIRED,
  Z_MICROCODE,
  Z_MISP,
  Z_RESTARTS,
  Z_LOADS,
  Z_WAITS
};

static void solve_zen(const double *c, double width, double *n) {
  const double slots = width * c[Z_CLK];
  unknown(n);
  n[PROF_FRONTEND] = ratio(c[Z_FE], slots);
  n[PROF_BAD_SPECULATION] = ratio(positive(c[Z_DISPATCHED] - c[Z_RETIRED]), slots);
  n[PROF_RETIRING] = ratio(c[Z_RETIRED], slots);
  n[PROF_BACKEND] = ratio(c[Z_BE], slots);
  n[PROF_SMT] = ratio(c[Z_SMT], slots);
  n[PROF_FETCH_LATENCY] = ratio(width * c[Z_FE_FULL], slots);
  n[PROF_MISPREDICTS] = n[PROF_BAD_SPECULATION] * ratio(c[Z_MISP], c[Z_MISP] + c[Z_RESTARTS]);
  n[PROF_MEMORY] = n[PROF_BACKEND] * ratio(c[Z_LOADS], c[Z_WAITS]);
  n[PROF_HEAVY] = n[PROF_RETIRING] * ratio(c[Z_MICROCODE], c[Z_RETIRED]);
  split(n);
}
static void solve_zen4(const double *c, bool smt, double *n) {
  (void)smt;
  solve_zen(c, 6, n);
}
static void solve_zen5(const double *c, bool smt, double *n) {
  (void)smt;
  solve_zen(c, 8, n);
}

#define ZEN_EVENTS(fe_full, restarts)                                                                             \
  {                                                                                                               \
    [Z_CLK] = {"cycles not in halt", SYS_RAW, 0x76}, [Z_FE] = {"no_dispatch.front_end", SYS_RAW, 0x1000001a0},    \
    [Z_BE] = {"no_dispatch.back_end", SYS_RAW, 0x100001ea0}, [Z_SMT] = {"no_dispatch.smt", SYS_RAW, 0x1000060a0}, \
    [Z_FE_FULL] = {"no_dispatch.front_end, all slots", SYS_RAW, fe_full},                                         \
    [Z_DISPATCHED] = {"ops dispatched", SYS_RAW, 0x7aa}, [Z_RETIRED] = {"ops retired", SYS_RAW, 0xc1},            \
    [Z_MICROCODE] = {"microcode ops retired", SYS_RAW, 0x1000000c2}, [Z_MISP] = {"mispredicts", SYS_RAW, 0xc3},   \
    [Z_RESTARTS] = {"restarts", SYS_RAW, restarts}, [Z_LOADS] = {"load not complete", SYS_RAW, 0xa2d6},           \
    [Z_WAITS] = {"not complete", SYS_RAW, 0x2d6},                                                                 \
  }
static const sys_event zen4_events[PROF_MOST_EVENTS] = ZEN_EVENTS(0x1060001a0, 0x96);
static const sys_event zen5_events[PROF_MOST_EVENTS] = ZEN_EVENTS(0x1080001a0, 0x19f);
static const prof_group zen_groups[] = {
    {{Z_CLK, Z_FE, Z_BE, Z_SMT, Z_DISPATCHED, Z_RETIRED}, 6, 1},
    {{Z_FE_FULL, Z_MICROCODE, Z_MISP, Z_RESTARTS, Z_LOADS, Z_WAITS}, 6, 2},
};

/* ---- the families ---- */

#define GROUPS(g) (g), sizeof(g) / sizeof *(g)
static const prof_family families[] = {
    {"Skylake-SP, Cascade Lake",
     "GenuineIntel",
     6,
     {{0x55, 0x55}},
     skylake_events,
     GROUPS(skylake_groups),
     solve_skylake},
    {"Ice Lake-SP",
     "GenuineIntel",
     6,
     {{0x6a, 0x6a}, {0x6c, 0x6c}},
     ice_lake_events,
     GROUPS(ice_lake_groups),
     solve_ice_lake},
    {"Sapphire Rapids",
     "GenuineIntel",
     6,
     {{0x8f, 0x8f}, {0xcf, 0xcf}},
     sapphire_events,
     GROUPS(sapphire_groups),
     solve_sapphire},
    {"Zen 4",
     "AuthenticAMD",
     0x19,
     {{0x10, 0x1f}, {0x60, 0x7f}, {0xa0, 0xaf}},
     zen4_events,
     GROUPS(zen_groups),
     solve_zen4},
    {"Zen 5", "AuthenticAMD", 0x1a, {{0, 0}}, zen5_events, GROUPS(zen_groups), solve_zen5},
};

const prof_family *prof_family_at(size_t index) {
  return index < sizeof families / sizeof *families ? &families[index] : NULL;
}

const prof_family *prof_family_of(const char *vendor, uint32_t family, uint32_t model) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    const prof_family *f = &families[i];
    if (strcmp(f->vendor, vendor) != 0 || f->family != family) continue;
    if (f->models[0].last == 0) return f;
    for (size_t k = 0; k < 4 && f->models[k].last; k++)
      if (model >= f->models[k].first && model <= f->models[k].last) return f;
  }
  return NULL;
}

/* ---- which node matters ---- */

void prof_keep_levels(double *nodes, int level) {
  for (int i = 0; i < PROF_NODES; i++)
    if (prof_nodes[i].level > level) nodes[i] = NAN;
}

bool prof_node_counts(const double *nodes, prof_node_id node) {
  for (;;) {
    if (!(nodes[node] > prof_nodes[node].threshold)) return false; /* NAN too */
    if (prof_nodes[node].level == 1) return true;
    node = prof_nodes[node].parent;
  }
}

/* Useful work is no fault: of nodes that lose slots, the deepest; of those, the largest. */
prof_node_id prof_worst_node(const double *nodes) {
  prof_node_id worst = PROF_NODES;
  for (int i = 0; i < PROF_NODES; i++) {
    const prof_node_id node = (prof_node_id)i;
    if (!prof_node_counts(nodes, node)) continue;
    const int level = prof_nodes[i].level, best = worst == PROF_NODES ? 0 : prof_nodes[worst].level;
    if (level > best || (level == best && nodes[i] > nodes[worst])) worst = node;
  }
  return worst;
}
