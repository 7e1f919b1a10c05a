/** A provider whose node has nothing but a directory and this executable, reached over a link (ssh, or this machine). */
import { mkdirSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { type Outside, OutsideError, readOutside } from "../../lib/json/outside.ts";
import { KIB, MINUTE_MS } from "../../lib/units.ts";
import { ContentError, type Meter, sha256File, syncDir, type Written, writeTemp } from "../files.ts";
import { type Link, quote } from "./link.ts";
import { fits } from "./placement.ts";
import {
  BATCH_BYTES,
  CHECKPOINTS,
  checkpointsDir,
  DONE,
  FILES,
  type Handle,
  INFO,
  LACKING,
  MOST_HANDLES,
  type NodeInfo,
  type NodePlan,
  OBSERVATIONS,
  type Observation,
  type RemoteFile,
} from "./protocol.ts";
import { type ReplicaNode, STARTED_REPLICA } from "./replicas.ts";
import {
  DamagedFile,
  type InputFile,
  type Need,
  NodeError,
  type Offer,
  type Provider,
  type PullMeter,
  type Submission,
} from "./types.ts";

export type NodeOptions = {
  region: string;
  kind: string;
  link: Link;
  /** The work directory on the node; a relative one is below the home of the user. */
  root: string;
  /** The executable of this server. */
  executable: string;
  rateMicros: number | null;
};

const COPY = { timeoutMs: 0 };
/** A node that takes the executable slower than this is of no use. */
const INSTALL_MS = 30 * MINUTE_MS;
/** The test of the executable answers with one word. */
const WORD_BYTES = 4 * KIB;

export class NodeProvider implements Provider {
  readonly #options: NodeOptions;
  #program: Promise<string> | undefined;

  constructor(options: NodeOptions) {
    this.#options = options;
  }

  async offers(need: Need): Promise<Offer[]> {
    return offersOf(await this.info(), this.#options).filter((offer) => fits(offer, need));
  }

  async info(): Promise<NodeInfo> {
    return await this.call(INFO, "info");
  }

  async submit({ plan, inputs }: Submission): Promise<Handle> {
    await this.#bring(inputs);
    await this.call(DONE, "plan", [JSON.stringify(plan.handle)], planBytes(plan));
    await this.start(plan.handle);
    return plan.handle;
  }

  async start(handle: Handle): Promise<void> {
    await this.call(DONE, "start", [JSON.stringify(handle)]);
  }

  async observe(handles: readonly Handle[]): Promise<Observation[]> {
    const all: Observation[] = [];
    for (let i = 0; i < handles.length; i += MOST_HANDLES) {
      const some = handles.slice(i, i + MOST_HANDLES);
      const seen = await this.observeSome(some);
      if (seen.length !== some.length)
        throw new NodeError(`the node answers about ${seen.length} runs instead of ${some.length}`);
      all.push(...seen);
    }
    return all;
  }

  protected observeSome(handles: readonly Handle[]): Promise<Observation[]> {
    return this.call(OBSERVATIONS, "observe", [], bytesOf(handles));
  }

  async cancel(handle: Handle, how: "save" | "stop"): Promise<void> {
    await this.call(DONE, "cancel", [JSON.stringify(handle), how]);
  }

  async fetch(handle: Handle, from: number): Promise<Uint8Array> {
    return await this.#run("records", [JSON.stringify(handle), String(from)], { mostBytes: BATCH_BYTES });
  }

  async checkpoints({ job }: Handle, drop: readonly string[]): Promise<string[]> {
    return await this.call(CHECKPOINTS, "checkpoints", [job, ...drop]);
  }

  async pull({ job }: Handle, checkpoint: string, into: string, meter: PullMeter): Promise<boolean> {
    const path = `${checkpointsDir(job)}/${checkpoint}`;
    const files = await this.call(FILES, "files", [path]);
    if (files.length === 0) return false;
    meter.expect(files.reduce((sum, { bytes }) => sum + bytes, 0));
    mkdirSync(into, { mode: 0o700 });
    for (const file of files) await this.#pullFile(file, join(into, basename(file.path)), meter);
    await syncDir(into);
    return true;
  }

  async remove(job: string): Promise<void> {
    await this.call(DONE, "remove", [job]);
  }

  readonly replicas: ReplicaNode = {
    bring: (inputs) => this.#bring(inputs),
    start: async (plan, keep) =>
      await this.call(STARTED_REPLICA, ...this.replicaVerb("start", [JSON.stringify(keep), JSON.stringify(plan)])),
    stop: async (name) => void (await this.call(DONE, ...this.replicaVerb("stop", [name]))),
    attach: async ({ name, worker, local }) => {
      const { link, root } = this.#options;
      const program = await this.#installed();
      const argv = (socket: string) => {
        const [verb, args] = this.replicaVerb("attach", [name, socket]);
        return [program, "node", verb, root, ...args];
      };
      return await link.open({ argv, forward: { local, remote: this.socketIn(worker) } });
    },
  };

  /** A verb of `verk node`, and its words. */
  protected replicaVerb(verb: string, words: string[]): [verb: string, words: string[]] {
    return [`replica_${verb}`, words];
  }

  /** The socket of the node for one connection. `worker`: as the replica has started. */
  protected socketIn(worker: string): string {
    return worker;
  }

  async #bring(inputs: readonly InputFile[]) {
    for (const input of await this.#lacking(inputs)) await this.#push(input);
  }

  async #pullFile({ path, sha256, bytes }: RemoteFile, to: string, meter: Meter) {
    let written: Written | undefined;
    const store = async (output: AsyncIterable<Uint8Array>) => {
      written = await writeTemp(to, output, { meter, maxBytes: bytes, expectedSha256: sha256 });
    };
    await this.#run("cat", [path], { to: store, mostBytes: Number.POSITIVE_INFINITY, ...COPY }).catch((error) => {
      throw error instanceof ContentError ? new DamagedFile(path) : error;
    });
    if (written?.bytes !== bytes) throw new DamagedFile(path);
  }

  async #lacking(inputs: readonly InputFile[]): Promise<InputFile[]> {
    const files = inputs.map(({ path, sha256, bytes }) => ({ path, sha256, bytes }));
    const missing = new Set(await this.call(LACKING, "lacking", [], bytesOf(files)));
    return inputs.filter(({ path }) => missing.has(path));
  }

  async #push({ path, sha256, source }: InputFile) {
    await this.#run("put", [path, sha256], { stdin: Bun.file(source), mostBytes: WORD_BYTES, ...COPY });
  }

  /** The owner of a node answers as it likes: nothing is believed that does not have the form. */
  protected async call<T>(
    form: Outside<T>,
    verb: string,
    args: readonly string[] = [],
    stdin?: Uint8Array,
  ): Promise<T> {
    const bytes = await this.#run(verb, args, { mostBytes: form.mostBytes, ...(stdin ? { stdin } : {}) });
    try {
      return readOutside(form, bytes.length === 0 ? "null" : bytes);
    } catch (error) {
      throw error instanceof OutsideError ? new NodeError(error.message) : error;
    }
  }

  async #run(verb: string, args: readonly string[], options: Omit<Parameters<Link["run"]>[0], "argv">) {
    const { link, root } = this.#options;
    return await link.run({ ...options, argv: [await this.#installed(), "node", verb, root, ...args] });
  }

  #installed(): Promise<string> {
    this.#program ??= this.#install().catch((error) => {
      this.#program = undefined;
      throw error;
    });
    return this.#program;
  }

  /**
   * Copies the executable once for each version. The hash is checked before the file gets its name. All users may read
   * it: on a node of root, reward code runs as another user.
   */
  async #install(): Promise<string> {
    const { link, root, executable } = this.#options;
    const sha256 = await sha256File(executable);
    const dir = `${root}/bin/${sha256}`;
    const program = dir.startsWith("/") ? `${dir}/verk` : `./${dir}/verk`;
    const size = statSync(executable).size;
    const test = `umask 022; mkdir -p ${quote(dir)} && test "$(stat -c %s ${quote(program)} 2>/dev/null)" = ${size} && echo there; true`;
    const there = await link.run({ argv: ["sh", "-c", test], mostBytes: WORD_BYTES });
    if (there.length > 0) return program;
    const copy = [
      "umask 022; set -e",
      `part=${quote(dir)}/part.$$`,
      "trap 'rm -f \"$part\"' EXIT",
      'cat > "$part"',
      `test "$(sha256sum < "$part" | cut -d" " -f1)" = ${sha256} || { echo "the executable was damaged on the way" >&2; exit 1; }`,
      'chmod 755 "$part"',
      `mv "$part" ${quote(program)}`,
    ].join("; ");
    await link.run({
      argv: ["sh", "-c", copy],
      stdin: Bun.file(executable),
      mostBytes: WORD_BYTES,
      timeoutMs: INSTALL_MS,
    });
    return program;
  }
}

const bytesOf = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const planBytes = (plan: NodePlan) => bytesOf(plan);

/** One offer for each type of device. A node without GPUs offers its processor. */
export function offersOf(
  info: NodeInfo,
  { region, kind, rateMicros }: Pick<NodeOptions, "region" | "kind" | "rateMicros">,
): Offer[] {
  const common = { region, provider: kind, rateMicros };
  if (info.gpus.length === 0)
    return [{ ...common, gpuType: "cpu", gpuCount: info.most?.["cpu"] ?? 1, memoryBytes: info.memory_bytes }];
  const byType = new Map<string, { count: number; memoryBytes: number }>();
  for (const { type, memory_bytes: bytes } of info.gpus) {
    const same = byType.get(type) ?? { count: 0, memoryBytes: bytes };
    byType.set(type, { count: same.count + 1, memoryBytes: Math.min(same.memoryBytes, bytes) });
  }
  return [...byType].map(([gpuType, { count, memoryBytes }]) => ({
    ...common,
    gpuType,
    gpuCount: info.most?.[gpuType] ?? count,
    memoryBytes,
  }));
}
