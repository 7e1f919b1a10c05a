/**
 * Processes with a model in them. Deployments with adapters of the same model and the same settings share a process.
 * The model is counted once, in the lease of the oldest replica in the process. Two deployments without an adapter
 * never share a process.
 */
import type { Ctx } from "../../../../context.ts";
import { write } from "../../../../platform/db/db.ts";
import * as gpu from "../../../machines/gpu/service.ts";
import type { Host, Live, Replica } from "./fleet.ts";

export type Guest = { key: string; live: Live; bare: boolean; modelId: string | null };

/** A process that the guest can join; `coming`: another replica is about to load the same model. */
export function hostFor(ctx: Ctx, guest: Guest): Host | "coming" | undefined {
  const { hosts, coming } = ctx.state.deployments;
  /** During a switch, the replicas of the old and of the new model may share. */
  const isOwn = ({ model, state }: Replica) => model.modelId === guest.modelId && state !== "leaving";
  const isTaken = ({ users }: Host) =>
    [...users].some(
      ([replica, live]) => (live === guest.live && isOwn(replica)) || (guest.bare && replica.adapter === null),
    );
  for (const host of hosts) if (host.key === guest.key && !host.ending && !isTaken(host)) return host;
  const awaited = [...coming].some(({ key, bare }) => key === guest.key && !(bare && guest.bare));
  return awaited ? "coming" : undefined;
}

/** Others that could share wait until the returned function is called. */
export function announce(ctx: Ctx, guest: Guest): () => void {
  const { coming } = ctx.state.deployments;
  coming.add(guest);
  return () => void coming.delete(guest);
}

export const open = (ctx: Ctx, host: Host) => void ctx.state.deployments.hosts.add(host);
export const close = (ctx: Ctx, host: Host) => void ctx.state.deployments.hosts.delete(host);
export const isOpen = (ctx: Ctx, host: Host) => !host.ending && ctx.state.deployments.hosts.has(host);

/** The replica whose lease includes the model. */
export const payerOf = ({ users }: Host): Replica | undefined => users.keys().next().value;

/** Corrects the lease of a replica to the memory that is known of it. */
export function correctLease(ctx: Ctx, replica: Replica) {
  const { host, holder, adapterBytes } = replica;
  gpu.correct(ctx, holder, adapterBytes + (payerOf(host) === replica ? host.bytes : 0));
}

/** One of several replicas leaves the process. The next oldest takes over the lease of the model. */
export function leave(ctx: Ctx, replica: Replica) {
  const { host, adapter, holder } = replica;
  const paid = payerOf(host) === replica;
  host.users.get(replica)?.replicas.delete(replica);
  host.users.delete(replica);
  host.worker.send({ type: "detach", name: adapter?.name ?? null });
  const heir = payerOf(host);
  write(ctx.db, () => {
    if (paid && heir) correctLease(ctx, heir); // before the release: the memory of the model is not free
    gpu.release(ctx, holder);
  });
}
