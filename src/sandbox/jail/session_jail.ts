/** The jail of this server's sessions, and who owns what lies in them. */
import { jailPath } from "../../native/jail/jail.ts";
import { type Jail, jailOwner } from "./jail.ts";
import type { JailOwner } from "./spec.ts";

export const sessionJail = (dataDir: string): Jail => ({ path: jailPath(dataDir), owner: jailOwner(dataDir) });

/** Undefined: this process, as everywhere but under root. */
export const sessionOwner = (dataDir: string): JailOwner | undefined =>
  process.getuid?.() === 0 ? jailOwner(dataDir) : undefined;
