/* The architecture that a C part is compiled for. The twin of index.ts for C. */
#ifndef VERK_ARCH_H
#define VERK_ARCH_H

#include <linux/audit.h>

#if defined __x86_64__
#define THIS_AUDIT_ARCH AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define THIS_AUDIT_ARCH AUDIT_ARCH_AARCH64
#else
#error "Verk runs on x86_64 and aarch64"
#endif

#endif
