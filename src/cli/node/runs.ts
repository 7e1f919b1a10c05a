/** Starts, observes and ends runs by their files. The lock of a job proves that its supervisor lives. */
import { closeSync, existsSync, mkdirSync, openSync, statSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { join, resolve } from "node:path";
import { z } from "zod";
import { MIB } from "../../lib/units.ts";
import { isHeld } from "../../platform/db/data_lock.ts";
import { writeFileAtomic } from "../../platform/files.ts";
import { attemptDir, Handle, jobDir, NodePlan, type Observation } from "../../platform/providers/protocol.ts";
import { self } from "../../platform/workers/self.ts";

const MOST_READ = 8 * MIB;
const LF = 10;

export async function storePlan(root: string, handle: Handle, plan: unknown): Promise<null> {
  const dir = join(root, attemptDir(handle));
  if (existsSync(join(dir, "plan.json"))) return null; // the run may already use it
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  await writeFileAtomic(join(dir, "plan.json"), JSON.stringify(NodePlan.parse(plan)));
  return null;
}

/** The supervisor has a session of its own, so it outlives this process and the connection. */
export function startRun(root: string, handle: Handle): Observation {
  const seen = observeRun(root, handle);
  if (seen.state !== "ready") return seen;
  const at = resolve(root);
  const log = openSync(join(at, attemptDir(handle), "supervisor.log"), "a", 0o600);
  try {
    const argv = self("node", "run", at, JSON.stringify(handle));
    Bun.spawn(argv, { cwd: at, stdin: "ignore", stdout: "ignore", stderr: log, detached: true }).unref();
  } finally {
    closeSync(log);
  }
  return seen;
}

export function observeRuns(root: string, handles: unknown): Observation[] {
  return z
    .array(Handle)
    .parse(handles)
    .map((handle) => observeRun(root, handle));
}

function observeRun(root: string, handle: Handle): Observation {
  const dir = join(root, attemptDir(handle));
  const has = (name: string) => existsSync(join(dir, name));
  const facts = { ...runFacts(dir), lost: null };
  if (!has("plan.json")) return { state: "missing", ...facts };
  // Read the lock before `ended`: a run that ends in between then counts as ended.
  const isLocked = isHeld(join(root, jobDir(handle.job))).held;
  if (has("ended")) return { state: "ended", ...facts };
  if (!has("started")) return { state: "ready", ...facts };
  return { state: isLocked ? "running" : "lost", ...facts };
}

export function runFacts(dir: string): Pick<Observation, "bytes" | "heartbeat_at"> {
  const bytes = statSync(join(dir, "records.ndjson"), { throwIfNoEntry: false })?.size ?? 0;
  const heartbeat = statSync(join(dir, "heartbeat"), { throwIfNoEntry: false })?.mtimeMs;
  return { bytes, heartbeat_at: heartbeat === undefined ? null : Math.round(heartbeat) };
}

/** A run that has not started never starts then: its supervisor reads the request first. */
export function cancelRun(root: string, handle: Handle, how: "save" | "stop"): null {
  const dir = join(root, attemptDir(handle));
  if (existsSync(dir)) writeFileSync(join(dir, how), "", { mode: 0o600 });
  return null;
}

/** Whole lines from byte `from` on, to standard output. */
export async function printRecords(root: string, handle: Handle, from: number): Promise<undefined> {
  const path = join(root, attemptDir(handle), "records.ndjson");
  if (!existsSync(path) || !Number.isSafeInteger(from) || from < 0) return undefined;
  const file = await open(path, "r");
  try {
    for (let most = MOST_READ; ; most *= 4) {
      const buffer = Buffer.alloc(Math.min(most, Math.max(0, (await file.stat()).size - from)));
      const { bytesRead } = await file.read(buffer, 0, buffer.length, from);
      const end = buffer.subarray(0, bytesRead).lastIndexOf(LF) + 1;
      if (end === 0 && bytesRead === most) continue; // one line is longer than this
      await Bun.write(Bun.stdout, buffer.subarray(0, end));
      return undefined;
    }
  } finally {
    await file.close();
  }
}
