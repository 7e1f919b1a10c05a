/** The end of a session's files, whatever its programs made of them. */
import { closeSync, openSync } from "node:fs";
import type { Ctx } from "../../context.ts";
import { errorCode } from "../../platform/files.ts";
import { CallError, O, removeDirAt } from "../../sandbox/beneath_calls.ts";
import { emptyDirectory } from "../../sandbox/beneath_tree.ts";
import { sessionsDir } from "./places.ts";

const MOST_MS = 600_000; // nobody fills it any more: only a very large one takes long, and goes on in the next round

/** Idempotent. */
export async function removeFiles(ctx: Pick<Ctx, "config">, id: string): Promise<void> {
  const parent = openParent(sessionsDir(ctx));
  if (parent === undefined) return;
  try {
    await emptyDirectory(parent, id, MOST_MS);
    removeDirAt(parent, id);
  } catch (error) {
    if (!(error instanceof CallError && error.code === "ENOENT")) throw error;
  } finally {
    closeSync(parent);
  }
}

function openParent(path: string): number | undefined {
  try {
    return openSync(path, O.O_RDONLY | O.O_DIRECTORY);
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}
