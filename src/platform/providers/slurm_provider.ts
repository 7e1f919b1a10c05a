/** A cluster with Slurm: its login node is reached over a link, and its nodes share the work directory. */
import { randomBytes } from "node:crypto";
import type { Outside } from "../../lib/json/outside.ts";
import { type NodeOptions, NodeProvider } from "./node_provider.ts";
import { DONE, type Handle, INFO, type NodeInfo, OBSERVATIONS, type Observation } from "./protocol.ts";
import type { SlurmSettings } from "./slurm_text.ts";

export class SlurmProvider extends NodeProvider {
  readonly #settings: string;

  constructor(options: NodeOptions, settings: SlurmSettings) {
    super(options);
    this.#settings = JSON.stringify(settings);
  }

  override async info(): Promise<NodeInfo> {
    return await this.#ask(INFO, "info");
  }

  override async start(handle: Handle): Promise<void> {
    await this.#ask(DONE, "start", [JSON.stringify(handle)]);
  }

  protected override observeSome(handles: readonly Handle[]): Promise<Observation[]> {
    return this.#ask(OBSERVATIONS, "observe", [JSON.stringify(handles)]);
  }

  override async cancel(handle: Handle, how: "save" | "stop"): Promise<void> {
    await this.#ask(DONE, "cancel", [JSON.stringify(handle), how]);
  }

  override async remove(job: string): Promise<void> {
    await this.#ask(DONE, "remove", [job]);
  }

  protected override replicaVerb(verb: string, words: string[]): [verb: string, words: string[]] {
    return ["slurm_replica", [verb, this.#settings, ...words]];
  }

  /** `worker` is a folder, because an older connection may not have ended yet. */
  protected override socketIn(worker: string): string {
    return `${worker}/${randomBytes(4).toString("hex")}`;
  }

  #ask<T>(form: Outside<T>, verb: string, args: readonly string[] = []): Promise<T> {
    return this.call(form, "slurm", [verb, this.#settings, ...args]);
  }
}
