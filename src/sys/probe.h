/* probe.h -- static probes: places of the code that perf, bpftrace, gdb and SystemTap find by name and can stop at. A
 * probe is an instruction that does nothing, and a note beside the program that says where it stands and where its
 * arguments lie (SystemTap's format, version 3, which <sys/sdt.h> writes, too). Nobody looking: it costs that
 * instruction. */
#ifndef SYS_PROBE_H
#define SYS_PROBE_H
#include <stdint.h>

#if defined(__x86_64__) && defined(__linux__)
/* The note's numbers: lengths of the owner's name and of what follows, and its kind. What follows: address of the
 * instruction, of a byte that tells how far a prelinked program was moved, of a counter of those who look (none), and
 * provider, name, arguments as text. `first` and `second` are 8 bytes long. */
#define SYS_PROBE(name, first, second)                                        \
  __asm__ volatile(                                                           \
      "990: nop\n"                                                            \
      ".pushsection .note.stapsdt,\"?\",\"note\"\n"                           \
      ".balign 4\n"                                                           \
      ".4byte 992f-991f, 994f-993f, 3\n"                                      \
      "991: .asciz \"stapsdt\"\n"                                             \
      "992: .balign 4\n"                                                      \
      "993: .8byte 990b\n"                                                    \
      ".8byte _.stapsdt.base\n"                                               \
      ".8byte 0\n"                                                            \
      ".asciz \"treadle\"\n"                                                  \
      ".asciz \"" name                                                        \
      "\"\n"                                                                  \
      ".asciz \"8@%0 8@%1\"\n"                                                \
      "994: .balign 4\n"                                                      \
      ".popsection\n"                                                         \
      ".ifndef _.stapsdt.base\n"                                              \
      ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
      ".weak _.stapsdt.base\n"                                                \
      ".hidden _.stapsdt.base\n"                                              \
      "_.stapsdt.base: .space 1\n"                                            \
      ".size _.stapsdt.base, 1\n"                                             \
      ".popsection\n"                                                         \
      ".endif\n"                                                              \
      :                                                                       \
      : "nor"((uint64_t)(first)), "nor"((uint64_t)(second)))
#else
#define SYS_PROBE(name, first, second) ((void)(first), (void)(second))
#endif
#endif
