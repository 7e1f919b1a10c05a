/** The columns of a job that are about the jail of its command. */
import type { Ctx } from "../../../../context.ts";
import type { JobResources } from "../../../../lib/training/resources.ts";
import type { JobRow } from "../table.ts";

/** Jobs of older versions have none of their own. */
export const resourcesOf = ({ config: { sessions } }: Pick<Ctx, "config">, { resources }: JobRow): JobResources =>
  resources ?? { memory_mib: sessions.memory_mib, cpus: null, disk_mib: sessions.disk_mib, gpu_memory_mib: null };

const aad = (jobId: string) => `training_job:${jobId}`;

/** The columns of a job's variables. */
export function sealEnv(ctx: Pick<Ctx, "secrets">, jobId: string, env: Record<string, string>) {
  const envNames = Object.keys(env);
  const envSealed = envNames.length === 0 ? "" : ctx.secrets.seal(JSON.stringify(env), aad(jobId));
  return { envNames, envSealed };
}

type Sealed = Pick<JobRow, "id" | "envSealed">;

export const envOf = (ctx: Pick<Ctx, "secrets">, { id, envSealed }: Sealed): Record<string, string> =>
  envSealed === "" ? {} : JSON.parse(new TextDecoder().decode(ctx.secrets.open(envSealed, aad(id))));
