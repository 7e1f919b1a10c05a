/**
 * Replicas of deployments on a node, and the lines that pass between a server and the supervisor of a replica. Paths are
 * relative to the work directory:
 *
 * replicas/<name>/lock           held by the supervisor
 * replicas/<name>/plan.json      sockets.json, exit.json; stop is a request to the supervisor
 */
import { z } from "zod";
import { opaque, outside } from "../../lib/json/outside.ts";
import { later } from "../../lib/schema.ts";
import { MINUTE_MS } from "../../lib/units.ts";
import type { Channel } from "./channel.ts";
import type { InputFile } from "./types.ts";

const SocketPath = z.string().max(1_000);
const MOST_TEXT = 200_000;

export const REPLICA = /^dep_[0-9a-hjkmnp-tv-z]{26}-[0-9a-f]{8}$/;

/** A replica that hears of no server for this long ends itself, so nothing is left behind by a server that is gone. */
export const LEASE_MS = 5 * MINUTE_MS;

export const ReplicaPlan = later(() =>
  z.strictObject({
    name: z.string().regex(REPLICA),
    /** The message `load` of the serving worker. The path of its model is relative to the work directory. */
    load: z.record(z.string(), z.unknown()),
    gpus: z.int().min(0),
    gpu_type: z.string(),
    settings: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
    lease_ms: z.int().positive(),
  }),
);
export type ReplicaPlan = z.infer<typeof ReplicaPlan>;

/** Sockets of a replica that runs. `worker` takes requests, `control` takes the lines of a server. */
export const ReplicaSockets = later(() => z.strictObject({ worker: z.string(), control: z.string() }));
export type ReplicaSockets = z.infer<typeof ReplicaSockets>;

/** `name`: of a replica that the node had already, if its plan was the same. */
export const StartedReplica = later(() =>
  z.strictObject({ name: z.string().regex(REPLICA), worker: SocketPath, control: SocketPath }),
);
export type StartedReplica = z.infer<typeof StartedReplica>;

export const ReplicaExit = later(() =>
  z.strictObject({ kind: z.string().max(40), message: z.string().max(MOST_TEXT), tail: z.string().max(MOST_TEXT) }),
);
export type ReplicaExit = z.infer<typeof ReplicaExit>;

/** From the server. The first line names it. `n` counts its messages, because it sends them again after a lost link. */
export const ToReplica = later(() =>
  z.union([
    z.strictObject({ client: z.string(), from: z.int().min(0) }),
    z.strictObject({ ping: z.literal(true) }),
    z.strictObject({ n: z.int().positive(), send: z.unknown() }),
  ]),
);
export type ToReplica = z.infer<typeof ToReplica>;

/** To the server. `n` counts the messages of the worker. */
export const FromReplica = later(() =>
  z.union([
    z.strictObject({ hello: z.literal(true) }),
    z.strictObject({ n: z.int().positive(), message: opaque("Options.incoming of remote_worker.ts") }),
    z.strictObject({ exit: ReplicaExit }),
  ]),
);
export type FromReplica = z.infer<typeof FromReplica>;

export const STARTED_REPLICA = outside("the answer of the node about a replica", StartedReplica);
export const REPLICA_LINE = outside("a line of the replica's node", FromReplica);

export const replicaDir = (name: string) => `replicas/${name}`;
export const deploymentOf = (name: string) => name.split("-")[0] ?? "";

type Attachment = { name: string; worker: string; local: string };

/** All throw `Unreachable` while the node cannot be reached. */
export type ReplicaNode = {
  /** Copies the files that the node lacks. */
  bring: (inputs: readonly InputFile[]) => Promise<void>;
  /** Other replicas of the deployment that are not in `keep` are ended: a server that was killed left them. */
  start: (plan: ReplicaPlan, keep: readonly string[]) => Promise<StartedReplica>;
  /** Ends the replica and removes its files. Can be repeated. */
  stop: (name: string) => Promise<void>;
  /** Requests to the socket `local` reach the replica while the channel is open. */
  attach: (attachment: Attachment) => Promise<Channel>;
};
