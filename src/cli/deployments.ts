/** Deployments as the command line sees them. */

import { UsageError } from "../lib/errors.ts";
import { nearest } from "../lib/text/nearest.ts";
import type { Deployment } from "../resources/deployments/schema.ts";
import { ApiError, type Client } from "./client.ts";
import type { Progress } from "./progress.ts";

export type { Deployment } from "../resources/deployments/schema.ts";

type Page = { data: Deployment[]; has_more: boolean };

export async function allDeployments(client: Client, status?: string): Promise<Deployment[]> {
  const found: Deployment[] = [];
  for (;;) {
    const query = new URLSearchParams({ limit: "100", ...(status ? { status } : {}) });
    const last = found.at(-1);
    if (last) query.set("after", last.id);
    const { body } = await client.call<Page>("GET", `/v1/deployments?${query}`);
    found.push(...body.data);
    if (!body.has_more || body.data.length === 0) return found;
  }
}

const isOver = ({ status }: Deployment) => status === "stopped" || status === "failed";

/** By id, or by name: of several with the name, the one that is not over, else the newest. */
export async function mustFind(client: Client, target: string): Promise<Deployment> {
  if (target.startsWith("dep_"))
    return (await client.call<Deployment>("GET", `/v1/deployments/${encodeURIComponent(target)}`)).body;
  const all = await allDeployments(client);
  const named = all.filter(({ name }) => name === target);
  const found = named.find((each) => !isOver(each)) ?? named[0];
  if (found) return found;
  const names = [...new Set(all.filter((each) => !isOver(each)).map(({ name }) => name))];
  const close = nearest(target, names);
  const there = names.length > 0 ? ` There are: ${names.slice(0, 10).join(", ")}.` : "";
  throw new UsageError(
    `There is no deployment ${JSON.stringify(target)}.${close ? ` Did you mean ${close}?` : there} Make one with \`verk deploy MODEL --name NAME\`.`,
    1,
  );
}

const LOOK_MS = 250;
const PATIENCE_LOOKS = 40; // ten seconds: as long as a server needs to restart

/** Follows a deployment until it serves or is over. Undefined: `signal` came first. */
export async function follow(
  client: Client,
  id: string,
  progress: Progress,
  signal: AbortSignal,
): Promise<Deployment | undefined> {
  for (let lost = 0; !signal.aborted; ) {
    try {
      const { body } = await client.call<Deployment>("GET", `/v1/deployments/${id}`, undefined, { signal });
      lost = 0;
      if (body.status === "serving" || isOver(body)) return body;
      const { stage, progress: fraction, reason } = body.load;
      if (reason) progress.show(reason);
      else progress.show(stage, fraction);
    } catch (error) {
      if (signal.aborted) return undefined;
      const passing = error instanceof ApiError && (error.status === 0 || error.status >= 500);
      if (!passing || ++lost > PATIENCE_LOOKS) throw error;
    }
    await Bun.sleep(LOOK_MS);
  }
  return undefined;
}
