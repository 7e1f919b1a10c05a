/**
 * Providers run training jobs. A provider offers devices, takes a plan, and reports on the runs that it has. The server
 * pulls everything: a provider never calls back, and losing the connection changes nothing for a run.
 */
import type { Meter } from "../files.ts";
import type { Handle, NodePlan, Observation, RemoteFile } from "./protocol.ts";

/** The hardware that a job needs. `memoryBytes` 0: unknown. */
export type Need = { gpuType?: string | undefined; gpuCount: number; memoryBytes: number };

/** Devices of one type in one region. `gpuType` is "cpu" for a region without GPUs. */
export type Offer = {
  region: string;
  provider: string;
  gpuType: string;
  gpuCount: number;
  /** The memory of one device. 0: unknown. */
  memoryBytes: number;
  /** For an hour of one device. Null: no price is known. */
  rateMicros: number | null;
};

/** A file that the run reads. `path` is relative to the work directory of the node. */
export type InputFile = RemoteFile & { path: string; source: string };

export type Submission = { plan: NodePlan; inputs: readonly InputFile[] };

export type Provider = {
  /** Devices that fit the need, in no order. */
  offers: (need: Need) => Promise<Offer[]>;
  /** Idempotent by job and attempt: a second call neither copies again nor starts a second run. */
  submit: (submission: Submission) => Promise<Handle>;
  /** Starts a run whose files are there. Does nothing if the run was started before. */
  start: (handle: Handle) => Promise<void>;
  /** The states of all these runs, in their order, in one call. */
  observe: (handles: readonly Handle[]) => Promise<Observation[]>;
  /** `save`: write a checkpoint and end. `stop`: end now. Can be repeated. */
  cancel: (handle: Handle, how: "save" | "stop") => Promise<void>;
  /** Whole lines of the records from byte `from` on; empty if there are none. */
  fetch: (handle: Handle, from: number) => Promise<Uint8Array>;
  /**
   * Copies the files of one checkpoint into `into`, a new directory. False if the node does not have the checkpoint. The
   * node says how many bytes come: `meter` is asked before the first one, and counts them as they are written.
   */
  pull: (handle: Handle, checkpoint: string, into: string, meter: PullMeter) => Promise<boolean>;
  /** Names of the checkpoints that the node has. `drop`: names to delete first. */
  checkpoints: (handle: Handle, drop: readonly string[]) => Promise<string[]>;
  /** Deletes everything that the node keeps for this job. Fails while the job runs. */
  remove: (job: string) => Promise<void>;
};

/** `expect` throws if an announced size does not fit. */
export type PullMeter = Meter & { expect: (bytes: number) => void };

/** The node cannot be reached. A run on it goes on. */
export class Unreachable extends Error {
  constructor(message: string) {
    super(message);
    this.name = "Unreachable";
  }
}

/** The node was reached, and a command on it failed. */
export class NodeError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "NodeError";
  }
}

/** A file of the node did not have the hash or the size that the node had said. */
export class DamagedFile extends NodeError {
  constructor(readonly file: string) {
    super(`${file} was damaged on the way`);
    this.name = "DamagedFile";
  }
}
