/** The checks of `verk doctor` for a page. They run in a child process: a library that crashes ends only the child. */
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { later } from "../../../lib/schema.ts";
import { SECOND_MS } from "../../../lib/units.ts";
import { self } from "../../../platform/workers/self.ts";

const KEPT_MS = 10 * SECOND_MS;
const TIMEOUT_MS = 60 * SECOND_MS;

export const SystemChecks = later(() =>
  z
    .object({
      object: z.literal("system_checks"),
      ok: z.boolean().describe("False if a check failed; a warning does not count"),
      checks: z.array(
        z.object({
          check: z.string(),
          status: z.enum(["ok", "warn", "fail"]),
          detail: z.string(),
          fix: z.string().nullable().describe("Steps that fix the problem; null if there is none"),
        }),
      ),
    })
    .meta({ id: "SystemChecks" }),
);
export type SystemChecks = z.infer<typeof SystemChecks>;

const Report = z.object({
  ok: z.boolean(),
  checks: z.array(
    z.object({
      check: z.string(),
      status: z.enum(["ok", "warn", "fail"]),
      detail: z.string(),
      fix: z.string().optional(),
    }),
  ),
});

/** Callers at the same time share one run, and its result is kept for ten seconds. */
export function runChecks(ctx: Ctx): Promise<SystemChecks> {
  const { checks } = ctx.state;
  if (!checks.result || ctx.clock.now() - checks.at > KEPT_MS) {
    checks.at = ctx.clock.now();
    checks.result = run(ctx).catch((error: unknown) => {
      checks.result = undefined;
      throw error;
    });
  }
  return checks.result;
}

async function run({ config, closing }: Ctx): Promise<SystemChecks> {
  const child = Bun.spawn(self("doctor", "--json", "--data", config.data_dir), {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "ignore",
    signal: AbortSignal.any([closing, AbortSignal.timeout(TIMEOUT_MS)]),
  });
  const text = await new Response(child.stdout).text();
  await child.exited;
  try {
    const { ok, checks } = Report.parse(JSON.parse(text));
    return { object: "system_checks", ok, checks: checks.map((each) => ({ ...each, fix: each.fix ?? null })) };
  } catch (cause) {
    throw new AppError("worker_failed", "The checks did not finish: run `verk doctor` on the server", { cause });
  }
}
