/**
 * The ceiling of a serving worker's HTTP side: an engine whose device answers at once, 1, 32, 128 and 256 streams. The
 * frames come from a thread, as those of a real engine do; vocabulary, text, JSON and sockets are the real ones.
 * `bun bench/http_side.ts [--streams 1,256] [--step-ms 1]`
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Ptr } from "../src/native/ffi.ts";
import { loadModel } from "../src/native/llama/load.ts";
import { openLlama } from "../src/native/llama/symbols.ts";
import { Pulse } from "../src/workers/serving/engine/thread/pulse.ts";
import { ThreadedEngine } from "../src/workers/serving/engine/thread/threaded_engine.ts";
import type { ModelFacts } from "../src/workers/serving/engine/types.ts";
import { Vocab } from "../src/workers/serving/engine/vocab.ts";
import { createRequestHandler, listen } from "../src/workers/serving/http.ts";
import { toServed } from "../src/workers/serving/request.ts";
import { SHAPES } from "./decode/shapes.ts";
import { writeRolloutModel } from "./peers/rollout_model.ts";
import type { StreamOutcome } from "./peers/stream_clients.ts";
import { remove, tempDir } from "./tools.ts";

const { values } = parseArgs({
  options: {
    streams: { type: "string", default: "1,32,128,256" },
    "step-ms": { type: "string", default: "1" },
    tokens: { type: "string", default: "256" },
  },
});

const dir = tempDir();
const path = join(dir, "model.gguf");
await writeRolloutModel(path, SHAPES["tiny"]!, "BF16");
const llama = openLlama(dir, { cuda: false });
const model = loadModel(llama, { path, devices: [], repack: false, vocabOnly: true });
const vocab = new Vocab(llama, model as Ptr);
const facts: ModelFacts = {
  ...{ architecture: "qwen2", contextLength: 4096, trainedContextLength: 4096, parallel: 256, vocabSize: vocab.size },
  ...{ isEncoder: false, hasPooling: false, pooling: "mean", pairs: { template: null, bos: -1, eos: -1, sep: -1 } },
  ...{ embeddingSize: 1, parameters: 0, weightBytes: 0, memoryBytes: 0, bosToken: "", eosToken: "", addsBos: false },
  ...{ chatTemplate: null, toolTemplate: null, device: "none", decoder: "a clock decodes" },
};
const thread = new Worker(new URL("./peers/instant_thread.ts", import.meta.url));
const pulse = new Pulse();
thread.postMessage([{ type: "open", stepMs: Number(values["step-ms"]), pulse: pulse.memory }]);
const engine = new ThreadedEngine(thread, { vocab, facts, model: 0, pulse, checkGrammar: () => {} });
const socket = join(dir, "w.sock");
const handler = createRequestHandler(toServed(engine), () => {}, new AbortController().signal);
const server = listen(socket, handler.fetch);
for (const streams of values.streams.split(",").map(Number)) {
  for (let round = 0; round < 2; round++) {
    const job = { socket, path: "/completions", clients: streams, prompt: 31, tokens: Number(values.tokens), seed: 1 };
    const command = [process.execPath, join(import.meta.dir, "peers/stream_clients.ts"), JSON.stringify(job)];
    const cpu = process.cpuUsage();
    const child = Bun.spawn(command, { stdout: "pipe", stderr: "inherit" });
    const out = JSON.parse(await new Response(child.stdout).text()) as StreamOutcome;
    const { user, system } = process.cpuUsage(cpu);
    const rate = (1000 * out.tokens) / (out.end - out.begun);
    const perToken = (user + system) / out.tokens;
    if (round > 0)
      console.log(
        `${streams} streams: ${Math.round(rate)} tok/s; ${perToken.toFixed(2)} µs of this process a token; ${(out.tokens / out.events).toFixed(1)} tokens an event`,
      );
  }
}
await server.stop(true);
thread.terminate();
remove(dir);
process.exit(0);
