/**
 * Clients of the serving worker, or of a deployment behind the server, that stream at once, in a process of their own. argv: JSON of StreamJob. Prints JSON of
 * StreamOutcome. Events are only counted and timed: parsing them would limit what the clients can take.
 */
export type StreamJob = {
  /** The worker's socket, or the address of a deployment with a key for it. */
  socket?: string;
  base?: string;
  key?: string;
  path: "/completions" | "/chat/completions";
  clients: number;
  /** Tokens of each prompt, and of each answer. */
  prompt: number;
  tokens: number;
  seed: number;
  /** Milliseconds between the starts of two clients. */
  apartMs?: number;
};
export type StreamOutcome = {
  tokens: number;
  /** Times since the epoch: first request, last first event, first end, last end. */
  begun: number;
  allBegun: number;
  firstEnd: number;
  end: number;
  /** One time for each client. */
  firstMs: number[];
  /** Times between two events of the same client. */
  gaps: number[];
  events: number;
};

const job = JSON.parse(process.argv[2] as string) as StreamJob;
const now = () => performance.timeOrigin + performance.now();

function bodyOf(client: number) {
  const seed = job.seed * 1000 + client;
  const common = { stream: true, stream_options: { include_usage: true }, max_tokens: job.tokens, seed };
  if (job.path === "/chat/completions")
    return { ...common, messages: [{ role: "user", content: `${seed} ${"w300Ġ".repeat(job.prompt)}` }] };
  const prompt = Array.from({ length: job.prompt }, (_, i) => 300 + ((seed * 613 + i * 31 + ((i * i) % 97)) % 1700));
  return { ...common, prompt };
}

async function stream(client: number) {
  if (job.apartMs) await Bun.sleep(client * job.apartMs);
  const begun = now();
  const times: number[] = [];
  const response = await fetch(`${job.base ?? "http://worker"}${job.path}`, {
    method: "POST",
    body: JSON.stringify(bodyOf(client)),
    ...(job.socket ? { unix: job.socket } : { headers: { authorization: `Bearer ${job.key}` } }),
  } as RequestInit);
  if (!response.ok || !response.body) throw new Error(`${response.status}: ${await response.text()}`);
  let last = "";
  const decoder = new TextDecoder("latin1");
  for await (const bytes of response.body) {
    times.push(now());
    last = (last + decoder.decode(bytes)).slice(-2000);
  }
  const tokens = Number(/"completion_tokens":(\d+)/.exec(last)?.[1] ?? Number.NaN);
  if (Number.isNaN(tokens)) throw new Error(`an answer without usage: ${last.slice(-300)}`);
  return { begun, times, tokens };
}

const answers = await Promise.all(Array.from({ length: job.clients }, (_, client) => stream(client)));
const outcome: StreamOutcome = {
  tokens: answers.reduce((sum, { tokens }) => sum + tokens, 0),
  begun: Math.min(...answers.map(({ begun }) => begun)),
  allBegun: Math.max(...answers.map(({ times }) => times[0]!)),
  firstEnd: Math.min(...answers.map(({ times }) => times.at(-1)!)),
  end: Math.max(...answers.map(({ times }) => times.at(-1)!)),
  firstMs: answers.map(({ begun, times }) => times[0]! - begun),
  gaps: answers.flatMap(({ times }) => times.slice(1).map((at, i) => at - times[i]!)),
  events: answers.reduce((sum, { times }) => sum + times.length, 0),
};
console.log(JSON.stringify(outcome));
