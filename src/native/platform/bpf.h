/* Builds a seccomp filter instruction by instruction. Skips count the instructions that follow. */
#ifndef VERK_BPF_H
#define VERK_BPF_H

#include "arch.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

enum { MAX_FILTER = 512, X32_BIT = 0x40000000 };

static struct sock_filter code[MAX_FILTER];
static unsigned short length;

static void put(unsigned short op, unsigned value, unsigned char if_true, unsigned char if_false) {
  if (length < MAX_FILTER) code[length] = (struct sock_filter){ op, if_true, if_false, value };
  length++; /* the kernel rejects a filter over MAX_FILTER: see filter_fits */
}

static void load(size_t offset) { put(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset, 0, 0); }
static void answer(unsigned value) { put(BPF_RET | BPF_K, value, 0, 0); }
static void skip_unless_equal(unsigned value, unsigned char skip) { put(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip); }
static void skip_if_equal(unsigned value, unsigned char skip) { put(BPF_JMP | BPF_JEQ | BPF_K, value, skip, 0); }
static void skip_unless_any(unsigned bits, unsigned char skip) { put(BPF_JMP | BPF_JSET | BPF_K, bits, 0, skip); }

static void refuse(unsigned error) { answer(SECCOMP_RET_ERRNO | error); }
static void allow(void) { answer(SECCOMP_RET_ALLOW); }

static inline int filter_fits(void) { return length <= MAX_FILTER; }

#define NUMBER offsetof(struct seccomp_data, nr)
/* Only the low half of arguments is compared, because the kernel reads only that half of the checked ones. */
#define ARGUMENT(i) (offsetof(struct seccomp_data, args) + 8 * (i))

/* Calls of another architecture, and calls with the x32 bit, have other numbers. */
static void check_architecture(void) {
  load(offsetof(struct seccomp_data, arch));
  skip_if_equal(THIS_AUDIT_ARCH, 1);
  answer(SECCOMP_RET_KILL_PROCESS);
  load(NUMBER);
  put(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
  refuse(ENOSYS);
}

#endif
