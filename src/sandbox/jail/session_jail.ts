/** The jail of sessions, and the owner of their files. */
import { jailPath } from "../../native/jail/jail.ts";
import { type Jail, jailOwner } from "./jail.ts";
import type { JailOwner } from "./spec.ts";

export const sessionJail = (dataDir: string): Jail => ({ path: jailPath(dataDir), owner: jailOwner(dataDir) });

/** Undefined unless the server is root: the files then belong to the user of the server. */
export const sessionOwner = (dataDir: string): JailOwner | undefined =>
  process.getuid?.() === 0 ? jailOwner(dataDir) : undefined;
