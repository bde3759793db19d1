/* What the machine is: recorded texts and register values of other machines, and that this one reads as sensible. */
#include "test.h"

#include <stdio.h>

#include "sys/sys_priv.h"

static const sys_cpuid all_sets = {.leaf1_ecx = UINT32_MAX,
                                   .leaf7_ebx = UINT32_MAX,
                                   .leaf7_ecx = UINT32_MAX,
                                   .leaf7_edx = UINT32_MAX,
                                   .leaf7_1_eax = UINT32_MAX};

static uint32_t isa_with(sys_cpuid cpuid, uint64_t xcr0) {
  cpuid.xcr0 = xcr0;
  return sys_isa_of(&cpuid);
}

static void a_set_counts_when_the_system_saves_it(void **state) {
  (void)state;
  const uint32_t avx = BASE_ISA_AVX2 | BASE_ISA_FMA | BASE_ISA_F16C;
  const uint32_t amx = BASE_ISA_AMX_TILE | BASE_ISA_AMX_INT8 | BASE_ISA_AMX_BF16;
  const uint32_t every =
      ((1u << BASE_ISA_COUNT) - 1) & ~(uint32_t)(BASE_ISA_VECTOR | BASE_ISA_EMULATED); /* no facts of CPUID */
  assert_int_equal(isa_with(all_sets, 0), 0);
  assert_int_equal(isa_with(all_sets, 0x3), 0);
  assert_int_equal(isa_with(all_sets, 0x7), avx);
  assert_int_equal(isa_with(all_sets, 0x67), avx); /* upper halves of zmm not saved */
  assert_int_equal(isa_with(all_sets, 0xe7), every & ~amx);
  assert_int_equal(isa_with(all_sets, 0x200e7), every & ~amx);
  assert_int_equal(isa_with(all_sets, 0x600e7), every);
  assert_int_equal(isa_with((sys_cpuid){0}, UINT64_MAX), 0);
}

static void each_set_has_its_bit(void **state) {
  (void)state;
  assert_int_equal(isa_with((sys_cpuid){.leaf7_ebx = 1u << 5}, 7), BASE_ISA_AVX2);
  assert_int_equal(isa_with((sys_cpuid){.leaf1_ecx = 1u << 12}, 7), BASE_ISA_FMA);
  assert_int_equal(isa_with((sys_cpuid){.leaf7_ebx = 1u << 16}, 0xe7), BASE_ISA_AVX512F);
  assert_int_equal(isa_with((sys_cpuid){.leaf7_ecx = 1u << 11}, 0xe7), BASE_ISA_AVX512_VNNI);
  assert_int_equal(isa_with((sys_cpuid){.leaf7_1_eax = 1u << 5}, 0xe7), BASE_ISA_AVX512_BF16);
  assert_int_equal(isa_with((sys_cpuid){.leaf7_edx = 1u << 25}, 0x600e7), BASE_ISA_AMX_INT8);
  assert_int_equal(isa_with((sys_cpuid){.leaf7_edx = 1u << 22}, 0x600e7), 0); /* it takes AVX512_BF16, too */
}

/* On such a CPU `--precision bf16` would take twice the time of f32. */
static void slow_sets_are_left_out(void **state) {
  (void)state;
  const uint32_t isa = BASE_ISA_AVX512F | BASE_ISA_AVX512_BF16 | BASE_ISA_AMX_BF16;
  const sys_machine rapids = {.cpu_vendor = "GenuineIntel", .cpu_family = 6, .cpu_model = 207};
  const sys_machine zen = {.cpu_vendor = "AuthenticAMD", .cpu_family = 25};
  assert_int_equal(sys_slow_isa_of(&rapids, isa), BASE_ISA_AVX512_BF16);
  assert_int_equal(sys_slow_isa_of(&rapids, BASE_ISA_AVX512F), 0);
  assert_int_equal(sys_slow_isa_of(&zen, isa), 0);
  assert_int_equal(sys_slow_isa_of(&(sys_machine){.cpu_name = "unknown"}, isa), 0);
}

static void expect_place(const char *cgroup, const char *mounts, bool v2, const char *folder, const char *top) {
  sys_cgroup place;
  sys_cgroup_find(cgroup, mounts, v2 ? NULL : "cpu", &place);
  assert_string_equal(place.folder, folder);
  assert_string_equal(place.top, top);
}

static void groups_are_found(void **state) {
  (void)state;
  static const char v2_mount[] =
      "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
      "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:4 master:1 - cgroup2 cgroup2 rw,nsdelegate\n";
  expect_place("0::/user.slice/a.service\n", v2_mount, true, "/sys/fs/cgroup/user.slice/a.service", "/sys/fs/cgroup");
  expect_place("0::/\n", v2_mount, true, "/sys/fs/cgroup", "/sys/fs/cgroup");
  expect_place("0::/../other\n", v2_mount, true, "/sys/fs/cgroup", "/sys/fs/cgroup");
  expect_place("0::/x\n", v2_mount, false, "", "");
  static const char v1_mounts[] =
      "33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n"
      "32 31 0:29 /docker/12ab /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n"
      "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  static const char v1_groups[] = "5:cpuset:/\n2:cpuacct,cpu:/docker/12ab/sub\n0::/\n";
  expect_place(v1_groups, v1_mounts, false, "/sys/fs/cgroup/cpu/sub", "/sys/fs/cgroup/cpu");
  expect_place("2:cpu:/docker/12ab\n", v1_mounts, false, "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu");
  expect_place("2:cpu:/docker/12abc/sub\n", v1_mounts, false, "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu");
  expect_place(v1_groups, v1_mounts, true, "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified");
  expect_place("", v1_mounts, false, "", "");
  expect_place(v1_groups, "", false, "", "");
  expect_place("2:cpu", "1 2", false, "", "");
}

static void quotas_are_read(void **state) {
  (void)state;
  assert_true(sys_quota_v2("max 100000\n") == 0);
  assert_true(sys_quota_v2("150000 100000\n") == 1.5);
  assert_true(sys_quota_v2("150000") == 0);
  assert_true(sys_quota_v2("") == 0);
  assert_true(sys_quota_v1("-1\n", "100000\n") == 0);
  assert_true(sys_quota_v1("400000\n", "100000\n") == 4);
  assert_true(sys_quota_v1("", "") == 0);
  assert_true(sys_quota_v1("1000", "0") == 0);
}

static void write_under(const char *root, const char *name, const char *text) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", root, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

/* The least of what the group, its parents and the machine have. */
static void memory_is_limited(void **state) {
  (void)state;
  char root[] = "/tmp/treadle-cgroup-XXXXXX", command[128];
  assert_non_null(mkdtemp(root));
  snprintf(command, sizeof command, "mkdir -p %s/proc/self %s/cg/a/b", root, root);
  assert_int_equal(system(command), 0);
  assert_int_equal(sys_memory_limit_under(root), 0);
  write_under(root, "proc/meminfo", "MemTotal:       1024 kB\nMemFree: 1 kB\n");
  assert_int_equal(sys_memory_limit_under(root), 1 << 20);
  write_under(root, "proc/self/cgroup", "0::/a/b\n");
  write_under(root, "proc/self/mountinfo", "35 24 0:30 / /cg rw - cgroup2 cgroup2 rw\n");
  write_under(root, "cg/a/b/memory.max", "max\n");
  assert_int_equal(sys_memory_limit_under(root), 1 << 20);
  write_under(root, "cg/a/memory.max", "524288\n");
  assert_int_equal(sys_memory_limit_under(root), 1 << 19);
  write_under(root, "cg/a/b/memory.max", "4096\n");
  assert_int_equal(sys_memory_limit_under(root), 4096);
  write_under(root, "proc/self/cgroup", "4:memory:/\n");
  write_under(root, "proc/self/mountinfo", "35 24 0:30 / /cg rw - cgroup cgroup rw,memory\n");
  write_under(root, "cg/memory.limit_in_bytes", "8192\n");
  assert_int_equal(sys_memory_limit_under(root), 8192);
  write_under(root, "cg/memory.limit_in_bytes", "9223372036854771712\n"); /* v1 has no other way to say: none */
  assert_int_equal(sys_memory_limit_under(root), 1 << 20);
  snprintf(command, sizeof command, "rm -rf %s", root);
  assert_int_equal(system(command), 0);
}

static void threads_are_capped(void **state) {
  (void)state;
  assert_int_equal(sys_usable_threads(8, 0), 8);
  assert_true(sys_keeps_threads(8, 8, 0) && sys_keeps_threads(2, 8, 2) && sys_keeps_threads(8, 8, 8.5));
  assert_false(sys_keeps_threads(9, 8, 0) || sys_keeps_threads(1, 8, 1.5) || sys_keeps_threads(1, 8, 0.5));
  assert_int_equal(sys_usable_threads(8, 2.9), 2);
  assert_int_equal(sys_usable_threads(8, 0.5), 1);
  assert_int_equal(sys_usable_threads(8, 64), 8);
  assert_int_equal(sys_usable_threads(0, 0), 1);
}

static void fields_and_sizes_are_read(void **state) {
  (void)state;
  static const char cpuinfo[] =
      "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9R14 \nflags : x\nmodel name : second\n";
  char value[32], little[4];
  sys_field(cpuinfo, "model name", value, sizeof value);
  assert_string_equal(value, "AMD EPYC 9R14 ");
  sys_field(cpuinfo, "model", value, sizeof value);
  assert_string_equal(value, "17");
  sys_field(cpuinfo, "model name", little, sizeof little);
  assert_string_equal(little, "AMD");
  sys_field(cpuinfo, "vendor", value, sizeof value);
  assert_string_equal(value, "");
  assert_int_equal(sys_parse_bytes("32K\n"), 32 << 10);
  assert_int_equal(sys_parse_bytes("36608 kB"), 36608 << 10);
  assert_int_equal(sys_parse_bytes("2M"), 2 << 20);
  assert_int_equal(sys_parse_bytes("512"), 512);
  assert_int_equal(sys_parse_bytes("-1"), 0);
  assert_int_equal(sys_parse_bytes(""), 0);
  sys_memory memory;
  sys_memory_parse("Name:\tx\nVmHWM:\t    2000 kB\nRssAnon:\t     156 kB\nRssFile:\t    1844 kB\n", &memory);
  assert_int_equal(memory.peak_bytes, 2000 << 10);
  assert_int_equal(memory.anon_bytes, 156 << 10);
  assert_int_equal(memory.file_bytes, 1844 << 10);
}

static void this_machine_is_sensible(void **state) {
  (void)state;
  sys_machine machine;
  sys_memory memory;
  sys_machine_read(&machine);
  assert_true(machine.allowed_cpus >= 1);
  assert_in_range(machine.threads, 1, machine.allowed_cpus);
  assert_true(machine.memory_bytes > 1 << 20);
  assert_int_equal(sys_threads_read(), machine.threads);
  sys_machine part;
  sys_cpu_read(&part);
  assert_string_equal(part.cpu_vendor, machine.cpu_vendor);
  assert_int_equal(part.isa, machine.isa);
  sys_caches_read(&part);
  assert_true(part.l2_bytes == machine.l2_bytes && part.l3_bytes == machine.l3_bytes);
  assert_true(sys_memory_now(&memory));
  assert_true(memory.peak_bytes >= memory.anon_bytes && memory.peak_bytes < machine.memory_bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_set_counts_when_the_system_saves_it),
      cmocka_unit_test(each_set_has_its_bit),
      cmocka_unit_test(slow_sets_are_left_out),
      cmocka_unit_test(groups_are_found),
      cmocka_unit_test(quotas_are_read),
      cmocka_unit_test(memory_is_limited),
      cmocka_unit_test(threads_are_capped),
      cmocka_unit_test(fields_and_sizes_are_read),
      cmocka_unit_test(this_machine_is_sensible),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
