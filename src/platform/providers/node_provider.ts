/** A provider whose node has nothing but a directory and this executable, reached over a link (ssh, or this machine). */
import { closeSync, fsyncSync, mkdirSync, openSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { z } from "zod";
import { sha256File, syncDir } from "../files.ts";
import { type Link, quote } from "./link.ts";
import { fits } from "./placement.ts";
import { checkpointsDir, type Handle, NodeInfo, type NodePlan, Observation, RemoteFile } from "./protocol.ts";
import { type ReplicaNode, StartedReplica } from "./replicas.ts";
import { type InputFile, type Need, NodeError, type Offer, type Provider, type Submission } from "./types.ts";

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
    return NodeInfo.parse(await this.call("info"));
  }

  async submit({ plan, inputs }: Submission): Promise<Handle> {
    await this.#bring(inputs);
    await this.call("plan", [JSON.stringify(plan.handle)], planBytes(plan));
    await this.start(plan.handle);
    return plan.handle;
  }

  async start(handle: Handle): Promise<void> {
    await this.call("start", [JSON.stringify(handle)]);
  }

  async observe(handles: readonly Handle[]): Promise<Observation[]> {
    if (handles.length === 0) return [];
    return z
      .array(Observation)
      .length(handles.length)
      .parse(await this.call("observe", [], bytesOf(handles)));
  }

  async cancel(handle: Handle, how: "save" | "stop"): Promise<void> {
    await this.call("cancel", [JSON.stringify(handle), how]);
  }

  async fetch(handle: Handle, from: number): Promise<Uint8Array> {
    return await this.#run("records", [JSON.stringify(handle), String(from)]);
  }

  async checkpoints({ job }: Handle, drop: readonly string[]): Promise<string[]> {
    return z.array(z.string()).parse(await this.call("checkpoints", [job, ...drop]));
  }

  async pull({ job }: Handle, checkpoint: string, into: string): Promise<boolean> {
    const path = `${checkpointsDir(job)}/${checkpoint}`;
    const files = z.array(RemoteFile).parse(await this.call("files", [path]));
    if (files.length === 0) return false;
    mkdirSync(into, { mode: 0o700 });
    for (const file of files) await this.#pullFile(file, join(into, basename(file.path)));
    await syncDir(into);
    return true;
  }

  async remove(job: string): Promise<void> {
    await this.call("remove", [job]);
  }

  readonly replicas: ReplicaNode = {
    bring: (inputs) => this.#bring(inputs),
    start: async (plan, keep) =>
      StartedReplica.parse(await this.call(...this.replicaVerb("start", [JSON.stringify(keep), JSON.stringify(plan)]))),
    stop: async (name) => void (await this.call(...this.replicaVerb("stop", [name]))),
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

  async #pullFile(file: RemoteFile, to: string) {
    const fd = openSync(to, "wx", 0o600);
    try {
      await this.#run("cat", [file.path], { to: fd, mostBytes: file.bytes, ...COPY });
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    if ((await sha256File(to)) !== file.sha256) throw new NodeError(`${file.path} was damaged on the way`);
  }

  async #lacking(inputs: readonly InputFile[]): Promise<InputFile[]> {
    const files = inputs.map(({ path, sha256, bytes }) => ({ path, sha256, bytes }));
    const missing = new Set(z.array(z.string()).parse(await this.call("lacking", [], bytesOf(files))));
    return inputs.filter(({ path }) => missing.has(path));
  }

  async #push({ path, sha256, source }: InputFile) {
    await this.#run("put", [path, sha256], { stdin: Bun.file(source), ...COPY });
  }

  protected async call(verb: string, args: readonly string[] = [], stdin?: Uint8Array): Promise<unknown> {
    const bytes = await this.#run(verb, args, stdin ? { stdin } : {});
    return bytes.length === 0 ? null : JSON.parse(new TextDecoder().decode(bytes));
  }

  async #run(verb: string, args: readonly string[], options: Partial<Parameters<Link["run"]>[0]> = {}) {
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
    const there = await link.run({ argv: ["sh", "-c", test] });
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
    await link.run({ argv: ["sh", "-c", copy], stdin: Bun.file(executable), ...COPY });
    return program;
  }
}

const bytesOf = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const planBytes = (plan: NodePlan) => bytesOf(plan);

/** One offer for each type of device. A node without GPUs offers its processor. */
export function offersOf(
  info: NodeInfo,
  { region, kind, rateMicros }: Pick<NodeOptions, "region" | "kind" | "rateMicros">,
) {
  const types = [...new Set(info.gpus.map(({ type }) => type))];
  const common = { region, provider: kind, rateMicros };
  if (types.length === 0)
    return [{ ...common, gpuType: "cpu", gpuCount: info.most?.["cpu"] ?? 1, memoryBytes: info.memory_bytes }];
  return types.map((gpuType): Offer => {
    const same = info.gpus.filter(({ type }) => type === gpuType);
    const memoryBytes = Math.min(...same.map(({ memory_bytes }) => memory_bytes));
    return { ...common, gpuType, gpuCount: info.most?.[gpuType] ?? same.length, memoryBytes };
  });
}
