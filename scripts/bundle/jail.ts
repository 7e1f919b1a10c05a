/** bun scripts/bundle/jail.ts: compiles src/native/jail into .stage/jail/verk-jail. */
import { dirname } from "node:path";
import type { Platform } from "../../src/native/platform/index.ts";
import { compilePart, type Part } from "./compile.ts";

const JAIL: Part = {
  name: "jail",
  file: "verk-jail",
  flags: ["-static"],
  needs: "it needs a static libc; on Debian: apt-get install gcc libc6-dev; on RHEL: dnf install gcc glibc-static",
};

/** The path of the executable. */
export const buildJail = (root: string, target?: Platform): string => compilePart(root, JAIL, target);

if (import.meta.main) console.log(buildJail(dirname(dirname(import.meta.dir))));
