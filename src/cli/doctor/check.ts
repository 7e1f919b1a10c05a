import { errorText } from "../../lib/error_text.ts";
import type { Config } from "../../platform/config/config.ts";

export type Status = "ok" | "warn" | "fail";
export type Finding = {
  check: string;
  status: Status;
  detail: string;
  /** The exact steps that fix the problem. */
  fix?: string;
};

/**
 * Input of the checks. `probeDir`: folder for unpacked native libraries, which is the data directory or a temporary one.
 * `file`: the configuration file, if one was read.
 */
export type Scene = { config: Config; probeDir: string; file?: string | undefined };
export type Verdict = Omit<Finding, "check">;
export type Check = { name: string; run: (scene: Scene) => Verdict | Promise<Verdict> };

export const ok = (detail: string): Verdict => ({ status: "ok", detail });
export const warn = (detail: string, fix: string): Verdict => ({ status: "warn", detail, fix });
export const fail = (detail: string, fix: string): Verdict => ({ status: "fail", detail, fix });

/** An exception in a check becomes a finding, so that the other checks still run. */
export async function examine({ name, run }: Check, scene: Scene): Promise<Finding> {
  try {
    return { check: name, ...(await run(scene)) };
  } catch (error) {
    const detail = errorText(error);
    return {
      check: name,
      ...fail(detail, "the check itself could not finish; fix the error in the message and run it again"),
    };
  }
}
