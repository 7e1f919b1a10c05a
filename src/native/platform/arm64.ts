import type { Platform } from "./types.ts";

export const arm64: Platform = {
  arch: "arm64",
  name: "linux-arm64",
  machine: "aarch64",
  debian: "arm64",
  multiarch: "aarch64-linux-gnu",
  loader: "/lib/ld-linux-aarch64.so.1",
  elfMachine: 183,
  seccompArch: 0xc00000b7,
  stat: { mode: 16, links: 20, linksBytes: 4 },
  bun: { package: "@oven/bun-linux-aarch64", target: "bun-linux-arm64" },
  cross: {
    gcc: "aarch64-linux-gnu-gcc",
    root: "/usr/aarch64-linux-gnu",
    packages: ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "libstdc++6-arm64-cross", "libgcc-s1-arm64-cross"],
  },
};
