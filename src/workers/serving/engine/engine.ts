/** Opens engines. threaded_engine.ts implements them. */
import { compiled } from "../../../native/bundle/embedded.ts";
import type { Ptr } from "../../../native/ffi.ts";
import { openLlama } from "../../../native/llama/symbols.ts";
import { openGrammar } from "./sampling/sampler.ts";
import type { FromThread, OpenMessage, PrepareMessage } from "./thread/messages.ts";
import { Pulse } from "./thread/pulse.ts";
import { ThreadedEngine } from "./thread/threaded_engine.ts";
import { type Engine, type EngineOptions, UnusableModel } from "./types.ts";
import { Vocab } from "./vocab.ts";

/** In the executable the thread is a second entry point (scripts/build.ts). */
const THREAD = compiled
  ? "/$bunfs/root/workers/serving/engine/thread/thread.js"
  : new URL("./thread/thread.ts", import.meta.url);

/** A thread that may have loaded its libraries: the work that a process can do before it knows its model. */
export type Prepared = { thread: Worker };

/** With `cuda` the driver is started too; that takes no GPU memory, unless `card` is true. */
export function prepareEngine(ahead: Omit<PrepareMessage, "type">): Prepared {
  const thread = new Worker(THREAD); // starts on another core while the libraries are loaded here
  openLlama(ahead.dataDir, { cuda: ahead.cuda });
  thread.postMessage([{ type: "prepare", ...ahead }]);
  return { thread };
}

export async function openEngine(options: EngineOptions, prepared?: Prepared): Promise<Engine> {
  return open(options, prepared?.thread ?? new Worker(THREAD), null);
}

/**
 * Opens several engines over the same weights, each with a thread and a share of the sequences. While the device
 * computes for one, the others prepare their next batches. The first owns the weights and is closed last.
 */
export async function openEngines(options: EngineOptions, count: number): Promise<Engine[]> {
  const each = { ...options, parallel: Math.ceil(options.parallel / count) };
  const first = await open(each, new Worker(THREAD), null);
  const others = Array.from({ length: count - 1 }, () => open(each, new Worker(THREAD), first.model));
  const opened = await Promise.allSettled(others);
  const engines = opened.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
  const failed = opened.find((result) => result.status === "rejected");
  if (!failed) return [first, ...engines];
  await closeEngines([first, ...engines]);
  throw failed.reason;
}

export async function closeEngines([first, ...others]: readonly Engine[]): Promise<void> {
  await Promise.all(others.map((engine) => engine.close()));
  await first?.close();
}

/** `model`: the address of weights that this process has already loaded. */
async function open(options: EngineOptions, thread: Worker, model: number | null): Promise<Engine> {
  // the thread needs the devices that this call loads
  const llama = openLlama(options.dataDir, { cuda: options.gpus.length > 0 });
  const { promise, resolve, reject } = Promise.withResolvers<Extract<FromThread, { type: "opened" }>>();
  thread.onerror = (event) => reject(new Error(event.message));
  thread.onmessage = ({ data }: MessageEvent<FromThread>) => {
    if (data instanceof Float64Array) return;
    if (data.type === "prefixes" || data.type === "wants_room") options.onPrefixes?.(data);
    if (data.type === "progress") options.onProgress?.(data.fraction);
    if (data.type === "opened") resolve(data);
    if (data.type === "unopened") reject(data.unusable ? new UnusableModel(data.error) : new Error(data.error));
  };
  const pulse = new Pulse();
  thread.postMessage([openMessage(options, { model, pulse: pulse.memory })]);
  try {
    const { model: address, facts: some } = await promise;
    const vocab = new Vocab(llama, address as Ptr);
    const facts = { ...some, bosToken: vocab.bosToken, eosToken: vocab.eosToken };
    const checkGrammar = (grammar: string) => llama.llama_sampler_free(openGrammar(llama, vocab.address, grammar));
    const onPrefixes = options.onPrefixes ?? (() => {});
    return new ThreadedEngine(thread, { vocab, facts, model: address, pulse, checkGrammar, onPrefixes });
  } catch (error) {
    thread.terminate();
    throw error;
  }
}

type ThreadParts = Pick<OpenMessage, "model" | "pulse">;

function openMessage({ onProgress, onPrefixes: _, ...options }: EngineOptions, parts: ThreadParts): OpenMessage {
  const off = {
    fault: "",
    unified: false,
    hurry: false,
    steady: false,
    images: false,
    prefixes: null,
    guesses: true,
    deviceSampling: options.gpus.length > 0,
  };
  const [decoder, batchInvariant, repack, kvType] = ["library", "off", "off", "f16"] as const;
  return {
    type: "open",
    ...off,
    decoder,
    batchInvariant,
    repack,
    kvType,
    ...options,
    ...parts,
    wantsProgress: onProgress !== undefined && parts.model === null,
  };
}
