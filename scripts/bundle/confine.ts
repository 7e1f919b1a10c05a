/** bun scripts/bundle/confine.ts: compiles src/native/confine into .stage/confine/verk-confine. */
import { dirname } from "node:path";
import type { Platform } from "../../src/native/platform/index.ts";
import { compilePart, type Part } from "./compile.ts";

const CONFINE: Part = {
  name: "confine",
  file: "verk-confine",
  flags: ["-static"],
  needs: "it needs a static libc; on Debian: apt-get install gcc libc6-dev; on RHEL: dnf install gcc glibc-static",
};

/** The path of the executable. */
export const buildConfine = (root: string, target?: Platform): string => compilePart(root, CONFINE, target);

if (import.meta.main) console.log(buildConfine(dirname(dirname(import.meta.dir))));
