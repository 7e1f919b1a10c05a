/**
 * Processes with a model in them. A deployment has one to itself, unless others want the same model with the same
 * settings and adapters of their own: then they sit in one process. The model is counted once, in the lease of whoever
 * sits there longest. Two who want the model as it is never share: each gets the process it asked for.
 */
import type { Ctx } from "../../../context.ts";
import { write } from "../../../platform/db/db.ts";
import * as gpu from "../../gpu/service.ts";
import type { Host, Live, Replica } from "./fleet.ts";

export type Guest = { key: string; live: Live; bare: boolean };

/** Where it can sit; `coming`: nowhere yet, but somebody is about to load just this. */
export function hostFor(ctx: Ctx, guest: Guest): Host | "coming" | undefined {
  const { hosts, coming } = ctx.state.deployments;
  const sitsThere = ({ users }: Host) =>
    [...users].some(([{ adapter }, live]) => live === guest.live || (guest.bare && adapter === null));
  for (const host of hosts) if (host.key === guest.key && !host.ending && !sitsThere(host)) return host;
  const awaited = [...coming].some(({ key, bare }) => key === guest.key && !(bare && guest.bare));
  return awaited ? "coming" : undefined;
}

/** Until it is called off or its process is there, others who could share wait for it. */
export function announce(ctx: Ctx, guest: Guest): () => void {
  const { coming } = ctx.state.deployments;
  coming.add(guest);
  return () => void coming.delete(guest);
}

export const open = (ctx: Ctx, host: Host) => void ctx.state.deployments.hosts.add(host);
export const close = (ctx: Ctx, host: Host) => void ctx.state.deployments.hosts.delete(host);
export const isOpen = (ctx: Ctx, host: Host) => !host.ending && ctx.state.deployments.hosts.has(host);

/** In whose lease the model is counted. */
export const payerOf = ({ users }: Host): Replica | undefined => users.keys().next().value;

/** What a replica holds, as far as it is known. */
export function account(ctx: Ctx, replica: Replica) {
  const { host, holder, adapterBytes } = replica;
  gpu.correct(ctx, holder, adapterBytes + (payerOf(host) === replica ? host.bytes : 0));
}

/** Others stay: they go on undisturbed, and one of them takes over the lease of the model. */
export function leave(ctx: Ctx, replica: Replica) {
  const { host, adapter, holder } = replica;
  const paid = payerOf(host) === replica;
  host.users.get(replica)?.replicas.delete(replica);
  host.users.delete(replica);
  host.worker.send({ type: "detach", name: adapter?.name ?? null });
  const heir = payerOf(host);
  write(ctx.db, () => {
    if (paid && heir) account(ctx, heir); // before the release: nobody must think that the memory is free
    gpu.release(ctx, holder);
  });
}
