/* test_probes.c -- static probes as perf and bpftrace find them: notes in this program's own file, which the library is
 * part of. */
#include "test.h"

#include <elf.h>
#include <stdio.h>

#include "runtime/runtime.h"
#include "sys/sys.h"

#if defined(__x86_64__) && defined(__linux__)
static sys_mapping file;

/* Whoever uses it has the parts of the library where the probes are. */
static td_status (*const volatile used)(run_session *, td_error *) = run_session_run;

static const void *at(uint64_t offset, uint64_t bytes) {
  assert_true(offset <= file.size && bytes <= file.size - offset);
  return (const char *)file.bytes + offset;
}

static const Elf64_Ehdr *header(void) { return at(0, sizeof(Elf64_Ehdr)); }
static const Elf64_Shdr *section(uint32_t i) {
  return at(header()->e_shoff + (uint64_t)i * header()->e_shentsize, sizeof(Elf64_Shdr));
}

static const Elf64_Shdr *section_called(const char *name) {
  const Elf64_Shdr *names = section(header()->e_shstrndx);
  for (uint32_t i = 0; i < header()->e_shnum; i++)
    if (strcmp(at(names->sh_offset + section(i)->sh_name, strlen(name) + 1), name) == 0) return section(i);
  return NULL;
}

/* The byte of code at an address of the program. */
static unsigned char code_at(uint64_t address) {
  for (uint32_t i = 0; i < header()->e_shnum; i++) {
    const Elf64_Shdr *s = section(i);
    if (s->sh_flags & SHF_EXECINSTR && address >= s->sh_addr && address - s->sh_addr < s->sh_size)
      return *(const unsigned char *)at(s->sh_offset + (address - s->sh_addr), 1);
  }
  fail_msg("%llx is no code", (unsigned long long)address);
  return 0;
}

static void probes_are_found(void **state) {
  (void)state;
  static const char *const names[] = {"inference__begin", "inference__end", "step__begin", "step__end"};
  enum { NAMES = sizeof names / sizeof *names };
  td_error err;
  unsigned found[NAMES] = {0};
  assert_non_null(used);
  assert_int_equal(sys_file_map("/proc/self/exe", &file, &err), TD_OK);
  const Elf64_Shdr *notes = section_called(".note.stapsdt"), *base = section_called(".stapsdt.base");
  assert_non_null(notes);
  assert_non_null(base);
  for (uint64_t i = 0; i < notes->sh_size;) {
    const Elf64_Nhdr *note = at(notes->sh_offset + i, sizeof *note);
    const char *owner = at(notes->sh_offset + i + sizeof *note, note->n_namesz);
    const uint64_t begin = notes->sh_offset + i + sizeof *note + (note->n_namesz + 3) / 4 * 4;
    uint64_t places[3];
    assert_string_equal(owner, "stapsdt");
    assert_int_equal(note->n_type, 3);
    memcpy(places, at(begin, note->n_descsz), sizeof places);
    const char *provider = (const char *)at(begin, note->n_descsz) + sizeof places,
               *name = provider + strlen(provider) + 1;
    const char *arguments = name + strlen(name) + 1;
    assert_string_equal(provider, "treadle");
    assert_int_equal(code_at(places[0]), 0x90); /* nothing but a nop */
    assert_int_equal(places[1], base->sh_addr);
    assert_int_equal(places[2], 0);
    assert_true(strncmp(arguments, "8@", 2) == 0 && strstr(arguments, " 8@"));
    for (int k = 0; k < NAMES; k++) found[k] += strcmp(name, names[k]) == 0;
    i = begin - notes->sh_offset + (note->n_descsz + 3) / 4 * 4;
  }
  for (int k = 0; k < NAMES; k++)
    if (!found[k]) fail_msg("there is no probe %s", names[k]);
  sys_unmap(&file);
}
#else
static void probes_are_found(void **state) {
  (void)state;
  skip();
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(probes_are_found)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
