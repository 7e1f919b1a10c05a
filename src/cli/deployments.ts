import { isDeploymentOver } from "../lib/deployment_status.ts";
import { UsageError } from "../lib/errors.ts";
import { nearest } from "../lib/text/nearest.ts";
import type { Deployment } from "../resources/serving/deployments/schema.ts";
import type { Client } from "./client.ts";
import type { Connection } from "./connect.ts";
import { listAll, wholeId } from "./lists.ts";
import { note } from "./output.ts";
import { pollUntil } from "./poll.ts";
import { createProgress, type Progress } from "./progress.ts";

export type { Deployment } from "../resources/serving/deployments/schema.ts";

export const allDeployments = (client: Client, status?: string) =>
  listAll<Deployment>(client, `/v1/deployments${status ? `?${new URLSearchParams({ status })}` : ""}`, ({ id }) => id);

export const isOver = ({ status }: Pick<Deployment, "status">) => isDeploymentOver(status);

/** Finds a deployment by id or by name. Of several with the same name it takes one that is not over, or the newest. */
export async function mustFind(client: Client, target: string): Promise<Deployment> {
  if (target.startsWith("dep_")) {
    const id = await wholeId(target, () => allDeployments(client));
    return (await client.call<Deployment>("GET", `/v1/deployments/${encodeURIComponent(id)}`)).body;
  }
  const all = await allDeployments(client);
  const named = all.filter(({ name }) => name === target);
  const deployment = named.find((each) => !isOver(each)) ?? named[0];
  if (deployment) return deployment;
  const names = [...new Set(all.filter((each) => !isOver(each)).map(({ name }) => name))];
  const close = nearest(target, names);
  const there = names.length > 0 ? ` Deployments: ${names.slice(0, 10).join(", ")}.` : "";
  throw new UsageError(
    `There is no deployment ${JSON.stringify(target)}.${close ? ` Did you mean ${close}?` : there} \`verk deploy MODEL --name NAME\` creates one.`,
    1,
  );
}

/** The status as a person reads it. */
export const stateOf = (each: Deployment) =>
  each.parked
    ? "parked"
    : each.status === "provisioning"
      ? `${each.load.stage} ${Math.round(each.load.progress * 100)} %`
      : each.status;

const POLL_MS = 250;
const OUTAGE_MS = 10_000; // a server restarts in less

/** Follows a deployment until it serves or is over. Returns undefined if `signal` aborts first. */
export async function follow(
  client: Client,
  id: string,
  progress: Progress,
  signal: AbortSignal,
): Promise<Deployment | undefined> {
  const isReady = (each: Deployment) => each.status === "serving" || isOver(each);
  const probe = async () => {
    const { body } = await client.call<Deployment>("GET", `/v1/deployments/${id}`, undefined, { signal });
    const { stage, progress: fraction, reason } = body.load;
    if (!isReady(body)) progress.show(reason ?? stage, reason ? undefined : fraction);
    return body;
  };
  return await pollUntil(probe, isReady, { signal, everyMs: POLL_MS, outageMs: OUTAGE_MS });
}

/**
 * Waits with a progress bar until a deployment serves or is over, and says what went wrong. Returns undefined after
 * Ctrl-C: the deployment then continues on the server.
 */
export async function untilServing(
  { client }: Connection,
  { id, name }: Pick<Deployment, "id" | "name">,
): Promise<Deployment | undefined> {
  const interrupted = new AbortController();
  const onSignal = () => interrupted.abort();
  process.once("SIGINT", onSignal);
  const progress = createProgress();
  let last: Deployment | undefined;
  try {
    last = await follow(client, id, progress, interrupted.signal);
  } finally {
    process.off("SIGINT", onSignal);
    progress.end();
  }
  if (!last) note(`${name} (${id}) continues on the server. \`verk deployments show ${name}\` shows its status.`);
  else if (isOver(last)) {
    const ending = last.status === "failed" ? "failed" : `is ${last.status}`;
    note(`verk: ${name} (${id}) ${ending}${last.last_error ? `: ${last.last_error}` : ""}`);
  }
  return last;
}
