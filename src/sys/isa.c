/* isa.c -- instruction sets from CPUID. A set counts only when the system saves its registers too (XCR0): Intel SDM
 * vol. 1 §13 and §14, vol. 2 CPUID. */
#include "sys/sys_priv.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { XCR0_AVX = 0x6, XCR0_AVX512 = 0xe6, XCR0_AMX = 0x60000 };

typedef struct isa_row {
  uint32_t isa;
  size_t word; /* of sys_cpuid, as an offset */
  uint8_t bit;
  uint32_t xcr0; /* state that must be enabled */
} isa_row;

static const isa_row rows[] = {
    {BASE_ISA_FMA, offsetof(sys_cpuid, leaf1_ecx), 12, XCR0_AVX},
    {BASE_ISA_F16C, offsetof(sys_cpuid, leaf1_ecx), 29, XCR0_AVX},
    {BASE_ISA_AVX2, offsetof(sys_cpuid, leaf7_ebx), 5, XCR0_AVX},
    {BASE_ISA_AVX512F, offsetof(sys_cpuid, leaf7_ebx), 16, XCR0_AVX512},
    {BASE_ISA_AVX512DQ, offsetof(sys_cpuid, leaf7_ebx), 17, XCR0_AVX512},
    {BASE_ISA_AVX512BW, offsetof(sys_cpuid, leaf7_ebx), 30, XCR0_AVX512},
    {BASE_ISA_AVX512VL, offsetof(sys_cpuid, leaf7_ebx), 31, XCR0_AVX512},
    {BASE_ISA_AVX512_VNNI, offsetof(sys_cpuid, leaf7_ecx), 11, XCR0_AVX512},
    {BASE_ISA_AVX512_BF16, offsetof(sys_cpuid, leaf7_1_eax), 5, XCR0_AVX512},
    {BASE_ISA_AMX_BF16, offsetof(sys_cpuid, leaf7_edx), 22, XCR0_AMX},
    {BASE_ISA_AMX_TILE, offsetof(sys_cpuid, leaf7_edx), 24, XCR0_AMX},
    {BASE_ISA_AMX_INT8, offsetof(sys_cpuid, leaf7_edx), 25, XCR0_AMX},
};

uint32_t sys_isa_of(const sys_cpuid *cpuid) {
  uint32_t isa = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    uint32_t word = *(const uint32_t *)((const char *)cpuid + rows[i].word);
    bool saved = (cpuid->xcr0 & rows[i].xcr0) == rows[i].xcr0;
    if (saved && (word >> rows[i].bit & 1)) isa |= rows[i].isa;
  }
  /* Kernels of the one round with the other. Every CPU that has the one has both; a virtual machine may show one. */
  return isa & BASE_ISA_AVX512_BF16 ? isa : isa & ~(uint32_t)BASE_ISA_AMX_BF16;
}

/* Measured: of an Emerald Rapids core VDPBF16PS of 512 bits makes 1.35 to 1.48 a ns, VFMADD of f32 5.55 to 5.95, so
 * that a product takes twice as long in bf16 as in f32. Intel's fast way to bf16 is AMX. */
static const struct {
  const char *vendor;
  uint32_t family, isa;
} slow[] = {{"GenuineIntel", 6, BASE_ISA_AVX512_BF16}};

uint32_t sys_slow_isa_of(const sys_machine *cpu, uint32_t isa) {
  for (size_t i = 0; i < sizeof slow / sizeof *slow; i++)
    if (strcmp(cpu->cpu_vendor, slow[i].vendor) == 0 && cpu->cpu_family == slow[i].family) return isa & slow[i].isa;
  return 0;
}

void sys_cpu_of(const sys_cpuid *cpuid, sys_machine *machine) {
  const uint32_t name[] = {cpuid->leaf0_ebx, cpuid->leaf0_edx, cpuid->leaf0_ecx}, id = cpuid->leaf1_eax;
  const uint32_t family = id >> 8 & 15;
  memset(machine->cpu_vendor, 0, sizeof machine->cpu_vendor);
  memcpy(machine->cpu_vendor, name, sizeof name);
  machine->cpu_family = family + (family == 15 ? id >> 20 & 255 : 0);
  machine->cpu_model = (id >> 4 & 15) + (family == 6 || family == 15 ? (id >> 16 & 15) << 4 : 0);
}

void sys_cpuid_read(sys_cpuid *cpuid) {
  *cpuid = (sys_cpuid){0};
#if defined(__x86_64__)
  unsigned a, b, c, d;
  if (__get_cpuid(0, &a, &b, &c, &d)) {
    cpuid->leaf0_ebx = b;
    cpuid->leaf0_ecx = c;
    cpuid->leaf0_edx = d;
  }
  if (__get_cpuid(1, &a, &b, &c, &d)) {
    cpuid->leaf1_eax = a;
    cpuid->leaf1_ecx = c;
  }
  if (cpuid->leaf1_ecx >> 27 & 1) { /* OSXSAVE: xgetbv may be executed */
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    cpuid->xcr0 = (uint64_t)high << 32 | low;
  }
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
  cpuid->leaf7_ebx = b;
  cpuid->leaf7_ecx = c;
  cpuid->leaf7_edx = d;
  if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) cpuid->leaf7_1_eax = a;
#endif
}
