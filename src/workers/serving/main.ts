/**
 * `verk worker serving`: serves one model over HTTP on a unix socket until the server asks it to stop. Adapters are
 * attached and detached meanwhile: deployments of the same model share this process.
 */
import { errorText } from "../../lib/error_text.ts";
import { type Host, runHosted } from "../host.ts";
import { type FromServing, ToServing, WorkerError } from "../protocol.ts";
import { openEngine, type Prepared, prepareEngine } from "./engine/engine.ts";
import type { PrefixMessage } from "./engine/thread/messages.ts";
import { type Engine, UnusableModel } from "./engine/types.ts";
import { warm } from "./health.ts";
import { createRequestHandler, listen, type RequestHandler } from "./http.ts";
import { type Served, toServed } from "./request.ts";
import { openVision, type Vision } from "./vision/vision.ts";

type ServingHost = Host<ToServing, FromServing>;
type Load = Extract<ToServing, { type: "load" }> & { fault: string };
type Attach = Extract<ToServing, { type: "attach" | "combine" }>;

const PROGRESS_STEP = 0.01;
const DRAIN_MS = 1_000; // time for cancelled requests to send their last event

/** `fault`: a fault of decode calls, for tests (engine/thread/fault.ts). */
export const runServing = (fault = "") =>
  runHosted<ToServing, FromServing>(ToServing, async (host) => await serve(host, fault));

async function serve(host: ServingHost, fault: string): Promise<void> {
  let prepared: Prepared | undefined;
  for await (const message of host.messages) {
    if (message.type === "load") return await serveModel(host, { ...message, fault }, prepared);
    if (message.type === "prepare") {
      const { data_dir: dataDir, cuda, model_path: modelPath, card } = message;
      prepared ??= prepareEngine({ dataDir, cuda, modelPath, card });
    }
  }
}

async function serveModel(host: ServingHost, load: Load, prepared: Prepared | undefined): Promise<void> {
  const begun = performance.now();
  const engine = await open(host, load, prepared);
  const vision = load.projector_path === undefined ? null : await see(load, load.projector_path, engine);
  host.send({ type: "loading", stage: "warming", progress: 0 });
  const warmed = warm(engine);
  const served = toServed(engine, load.model_id, vision);
  rehearse(served); // runs on this thread while the other one decodes
  await warmed;
  const handler = createRequestHandler(served, host.send, host.stopping);
  const server = listen(host.socketPath, handler.fetch);
  const { contextLength, parallel, memoryBytes, device, decoder } = engine.facts;
  host.send({
    type: "loaded",
    context_length: contextLength,
    parallel,
    memory_bytes: Math.round(memoryBytes) + (vision?.bytes ?? 0),
    load_ms: performance.now() - begun,
    device,
    decoder,
    vision: vision !== null,
  });
  for await (const message of host.messages) {
    if (message.type === "attach" || message.type === "combine") host.send(await attach(served, handler, message));
    if (message.type === "prefix_room") engine.grantRoom(message.bytes);
    if (message.type === "detach") await detach(served, handler, message.name);
  }
  await Promise.race([server.stop(), Bun.sleep(DRAIN_MS)]);
  await server.stop(true);
  vision?.close();
  await engine.close();
}

async function see(load: Load, path: string, engine: Engine): Promise<Vision> {
  const { data_dir: dataDir, threads, gpus } = load;
  try {
    return await openVision({ dataDir, path, threads, gpus, width: engine.facts.embeddingSize });
  } catch (error) {
    throw error instanceof UnusableModel ? new WorkerError("data", error.message, { cause: error }) : error;
  }
}

/** Renders once so that the first request is fast. A template that fails here will report it to a client later. */
function rehearse({ template, newQuotes }: Served) {
  const { quote, tokenize } = newQuotes();
  try {
    const messages = [{ role: "user" as const, content: "hello" }];
    tokenize(template.render({ messages, tools: [], variables: {}, quote }));
  } catch (error) {
    console.error(error instanceof Error ? error.stack : error);
  }
}

async function open(host: ServingHost, load: Load, prepared: Prepared | undefined): Promise<Engine> {
  host.send({ type: "loading", stage: "loading", progress: 0 });
  let shown = 0;
  const options = {
    dataDir: load.data_dir,
    modelPath: load.model_path,
    contextLength: load.context_length,
    parallel: load.parallel,
    threads: load.threads,
    gpus: load.gpus,
    hurry: load.hurry,
    decoder: load.decoder ?? "auto",
    batchInvariant: load.batch_invariant ?? "auto",
    repack: load.repack ?? "auto",
    kvType: load.kv_type ?? "f16",
    guesses: load.guesses ?? true,
    images: load.projector_path !== undefined,
    fault: load.fault,
    ...(load.prefixes ? { prefixes: load.prefixes } : {}),
    onPrefixes: (message: PrefixMessage) =>
      host.send(message.type === "wants_room" ? { type: "prefix_room", bytes: message.bytes } : message),
    onProgress(fraction: number) {
      if (fraction - shown < PROGRESS_STEP) return;
      shown = fraction;
      host.send({ type: "loading", stage: "loading", progress: Math.min(fraction, 1) });
    },
  };
  try {
    return await openEngine(options, prepared);
  } catch (error) {
    throw error instanceof UnusableModel ? new WorkerError("data", error.message, { cause: error }) : error;
  }
}

async function attach({ engine, ids }: Served, handler: RequestHandler, message: Attach): Promise<FromServing> {
  const { name, model_id: id } = message;
  try {
    if (message.type === "attach")
      await engine.attach(name, message.path, { ...(message.identity ? { identity: message.identity } : {}) });
    else await engine.combine(name, message.parts);
  } catch (error) {
    return { type: "unattached", name, error: errorText(error) };
  }
  if (id !== undefined) ids.adapters.set(name, id);
  handler.open(name);
  return { type: "attached", name };
}

/** The engine keeps the adapter until its last sequence ends. */
async function detach({ engine, ids }: Served, handler: RequestHandler, name: string | null): Promise<void> {
  handler.close(name);
  if (name === null) return;
  ids.adapters.delete(name);
  await engine.detach(name);
}
