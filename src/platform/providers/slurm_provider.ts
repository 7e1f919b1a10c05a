/** A cluster with Slurm: its login node is reached over a link, and its nodes share the work directory. */
import { randomBytes } from "node:crypto";
import { z } from "zod";
import { type NodeOptions, NodeProvider } from "./node_provider.ts";
import { type Handle, NodeInfo, Observation } from "./protocol.ts";
import type { SlurmSettings } from "./slurm_text.ts";

export class SlurmProvider extends NodeProvider {
  readonly #settings: string;

  constructor(options: NodeOptions, settings: SlurmSettings) {
    super(options);
    this.#settings = JSON.stringify(settings);
  }

  override async info(): Promise<NodeInfo> {
    return NodeInfo.parse(await this.#ask("info"));
  }

  override async start(handle: Handle): Promise<void> {
    await this.#ask("start", [JSON.stringify(handle)]);
  }

  override async observe(handles: readonly Handle[]): Promise<Observation[]> {
    if (handles.length === 0) return [];
    return z
      .array(Observation)
      .length(handles.length)
      .parse(await this.#ask("observe", [JSON.stringify(handles)]));
  }

  override async cancel(handle: Handle, how: "save" | "stop"): Promise<void> {
    await this.#ask("cancel", [JSON.stringify(handle), how]);
  }

  override async remove(job: string): Promise<void> {
    await this.#ask("remove", [job]);
  }

  protected override replicaVerb(verb: string, words: string[]): [verb: string, words: string[]] {
    return ["slurm_replica", [verb, this.#settings, ...words]];
  }

  /** `worker` is a folder, because an older connection may not have ended yet. */
  protected override socketIn(worker: string): string {
    return `${worker}/${randomBytes(4).toString("hex")}`;
  }

  #ask(verb: string, args: readonly string[] = []): Promise<unknown> {
    return this.call("slurm", [verb, this.#settings, ...args]);
  }
}
