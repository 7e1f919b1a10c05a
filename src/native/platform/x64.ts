import type { Platform } from "./types.ts";

export const x64: Platform = {
  arch: "x64",
  name: "linux-x64",
  machine: "x86_64",
  debian: "amd64",
  multiarch: "x86_64-linux-gnu",
  loader: "/lib64/ld-linux-x86-64.so.2",
  elfMachine: 62,
  seccompArch: 0xc000003e,
  stat: { mode: 24, links: 16, linksBytes: 8 },
  bun: { package: "@oven/bun-linux-x64", target: "bun-linux-x64" },
  cross: {
    gcc: "x86_64-linux-gnu-gcc",
    root: "/usr/x86_64-linux-gnu",
    packages: ["gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross", "libstdc++6-amd64-cross", "libgcc-s1-amd64-cross"],
  },
};
