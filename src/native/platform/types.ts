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
  bun: { package: string; target: "bun-linux-x64" | "bun-linux-arm64" };
  /** Debian's tools that build for this architecture on the other one; `root` holds its lib and include. */
  cross: { gcc: string; root: string; packages: readonly string[] };
};
