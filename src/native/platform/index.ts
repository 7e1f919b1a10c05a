/**
 * Facts about the two processor architectures that the product runs on. No other module names an architecture:
 * everything that differs between them is a field here.
 */
import { dlopen } from "bun:ffi";
import { SYSCALLS } from "./syscall_table.ts";

/** A value of `process.arch`. */
export type Arch = "x64" | "arm64";

export type Platform = {
  arch: Arch;
  /** Ends the names of npm packages and of the build's outputs. */
  name: string;
  /** The output of `uname -m`. */
  machine: string;
  /** The name in packages of Debian and in images of containers. */
  debian: string;
  /** Debian's folder of libraries below /lib and /usr/lib. */
  multiarch: string;
  /** The dynamic loader of glibc. */
  loader: string;
  /** e_machine in the header of an ELF file. */
  elfMachine: number;
  /** AUDIT_ARCH_* of the kernel: the `arch` that a seccomp filter sees. */
  seccompArch: number;
  /** Offsets in the kernel's struct stat, in bytes. The other fields lie at the same place on both. */
  stat: { mode: number; links: number; linksBytes: 4 | 8 };
  /** Rows of a call up to which llama.cpp's kernels for the processor keep the order of sums (batch_shapes.ts). */
  steadyRows: number;
  bun: { package: string; target: "bun-linux-x64" | "bun-linux-arm64" };
  /** Debian's tools that build for this architecture on the other one; `root` holds its lib and include. */
  cross: { gcc: string; root: string; packages: readonly string[] };
};

const x64: Platform = {
  arch: "x64",
  name: "linux-x64",
  machine: "x86_64",
  debian: "amd64",
  multiarch: "x86_64-linux-gnu",
  loader: "/lib64/ld-linux-x86-64.so.2",
  elfMachine: 62,
  seccompArch: 0xc000003e,
  stat: { mode: 24, links: 16, linksBytes: 8 },
  steadyRows: 60, // below 64
  bun: { package: "@oven/bun-linux-x64", target: "bun-linux-x64" },
  cross: {
    gcc: "x86_64-linux-gnu-gcc",
    root: "/usr/x86_64-linux-gnu",
    packages: ["gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross", "libstdc++6-amd64-cross", "libgcc-s1-amd64-cross"],
  },
};

const arm64: Platform = {
  arch: "arm64",
  name: "linux-arm64",
  machine: "aarch64",
  debian: "arm64",
  multiarch: "aarch64-linux-gnu",
  loader: "/lib/ld-linux-aarch64.so.1",
  elfMachine: 183,
  seccompArch: 0xc00000b7,
  stat: { mode: 16, links: 20, linksBytes: 4 },
  steadyRows: 4, // below 8, and one group
  bun: { package: "@oven/bun-linux-aarch64", target: "bun-linux-arm64" },
  cross: {
    gcc: "aarch64-linux-gnu-gcc",
    root: "/usr/aarch64-linux-gnu",
    packages: ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "libstdc++6-arm64-cross", "libgcc-s1-arm64-cross"],
  },
};

export const PLATFORMS: Readonly<Record<Arch, Platform>> = { x64, arm64 };

/** `arch` is a value of `process.arch`. */
export function platformOf(arch: string): Platform {
  const platform = Object.values(PLATFORMS).find((each) => each.arch === arch);
  if (!platform) throw new Error(`Verk does not run on ${arch}; it runs on ${Object.keys(PLATFORMS).join(" and ")}`);
  return platform;
}

/** The platform of this process. */
export const platform: Platform = platformOf(process.arch);

type Pair = readonly [x64: number | null, arm64: number | null];
/** The type of a call that one architecture lacks includes undefined, so the compiler checks its uses. */
export type SyscallNumbers = {
  readonly [Name in keyof typeof SYSCALLS]: (typeof SYSCALLS)[Name] extends readonly [number, number]
    ? number
    : number | undefined;
};

export function syscallNumbers(arch: Arch): SyscallNumbers {
  const column = arch === x64.arch ? 0 : 1;
  const rows: [string, Pair][] = Object.entries(SYSCALLS);
  return Object.fromEntries(rows.map(([name, pair]) => [name, pair[column] ?? undefined])) as SyscallNumbers;
}

let bytesOfPage: number | undefined;

/** Bytes of a memory page: 4, 16 or 64 KiB, depending on the kernel. */
export function pageBytes(): number {
  bytesOfPage ??= dlopen("libc.so.6", { getpagesize: { args: [], returns: "i32" } }).symbols.getpagesize();
  return bytesOfPage;
}
