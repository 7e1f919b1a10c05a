import type { Config } from "../../platform/config/config.ts";

export type Status = "ok" | "warn" | "fail";
export type Finding = {
  check: string;
  status: Status;
  detail: string;
  /** What to do about it, exactly. */
  fix?: string;
};

/**
 * What the checks look at. `probeDir` takes the native libraries: the data directory, or a temporary one. `file`: the
 * configuration file that was read, if any.
 */
export type Scene = { config: Config; probeDir: string; file?: string | undefined };
export type Verdict = Omit<Finding, "check">;
export type Check = { name: string; run: (scene: Scene) => Verdict | Promise<Verdict> };

export const ok = (detail: string): Verdict => ({ status: "ok", detail });
export const warn = (detail: string, fix: string): Verdict => ({ status: "warn", detail, fix });
export const fail = (detail: string, fix: string): Verdict => ({ status: "fail", detail, fix });

/** A check that breaks is a finding too: the others still have something to say. */
export async function examine({ name, run }: Check, scene: Scene): Promise<Finding> {
  try {
    return { check: name, ...(await run(scene)) };
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error);
    return { check: name, ...fail(detail, "see the message; the check itself could not finish") };
  }
}
