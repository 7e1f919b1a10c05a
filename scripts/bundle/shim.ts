/** bun scripts/bundle/shim.ts: compiles src/native/shim into .stage/shim/verk-shim.so. */
import { dirname } from "node:path";
import type { Platform } from "../../src/native/platform/index.ts";
import { compilePart, type Part } from "./compile.ts";

const SHIM: Part = {
  name: "shim",
  file: "verk-shim.so",
  flags: ["-shared", "-fPIC", "-Wl,-z,relro,-z,now"],
  needs: "on Debian: apt-get install gcc libc6-dev; on RHEL: dnf install gcc glibc-devel",
};

/** The path of the library. */
export const buildShim = (root: string, target?: Platform): string => compilePart(root, SHIM, target);

if (import.meta.main) console.log(buildShim(dirname(dirname(import.meta.dir))));
