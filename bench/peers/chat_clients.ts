/**
 * N clients that stream at once, in a process of their own. argv: JSON of Job. Prints JSON of Outcome: counts are the
 * server's own usage, times are what a client sees. With clients = 0 it answers every line on standard input with one of
 * First, the time to the first token of a request.
 */
export type Job = {
  /** The address of one deployment: /chat/completions and /completions are under it. */
  base: string;
  key: string;
  model: string;
  clients: number;
  tokens: number;
};
export type Outcome = {
  /** From the first request to the last answer's end, prompts and all. */
  perSecond: number;
  /** While all N were being decoded: from the last first token to the first end. */
  steadyPerSecond: number;
  tokens: number;
  promptTokens: number;
  firstMs: number;
};
export type First = { firstMs: number; promptTokens: number };

type Usage = { prompt_tokens: number; completion_tokens: number };
type Chunk = {
  choices?: { text?: string; delta?: { content?: string } }[];
  usage?: Usage;
  error?: { message: string };
};
type Piece = { at: number; letters: number };
type Answer = { firstMs: number; usage: Usage; pieces: Piece[] };

const job = JSON.parse(process.argv[2] as string) as Job;
const headers = { authorization: `Bearer ${job.key}`, "content-type": "application/json" };
const SAMPLING = { temperature: 0.8, top_p: 0.95, top_k: 40, min_p: 0 };

async function ask(path: string, wish: object): Promise<Answer> {
  const began = performance.now();
  const options = { stream: true, stream_options: { include_usage: true }, ...SAMPLING };
  const body = JSON.stringify({ model: job.model, ...options, ...wish });
  const response = await fetch(`${job.base}${path}`, { method: "POST", headers, body });
  if (!response.ok || !response.body) throw new Error(`${response.status}: ${await response.text()}`);
  const decoder = new TextDecoder();
  const pieces: Piece[] = [];
  let usage: Usage | undefined;
  let pending = "";
  for await (const bytes of response.body) {
    const blocks = (pending + decoder.decode(bytes, { stream: true })).split("\n\n");
    pending = blocks.pop() ?? "";
    for (const block of blocks) {
      if (!block.startsWith("data: {")) continue;
      const chunk = JSON.parse(block.slice(6)) as Chunk;
      if (chunk.error) throw new Error(chunk.error.message);
      const text = chunk.choices?.[0]?.delta?.content ?? chunk.choices?.[0]?.text;
      if (text) pieces.push({ at: performance.now(), letters: text.length });
      usage = chunk.usage ?? usage;
    }
  }
  if (!usage) throw new Error("an answer without usage");
  return { firstMs: (pieces[0]?.at ?? Number.NaN) - began, usage, pieces };
}

/**
 * A piece may have several tokens, and the server reports only their sum. Letters measure the share within the window.
 */
function steadyRate(answers: readonly Answer[], tokens: number): number {
  const from = Math.max(...answers.map(({ pieces }) => pieces[0]?.at ?? Number.POSITIVE_INFINITY));
  const upTo = Math.min(...answers.map(({ pieces }) => pieces.at(-1)?.at ?? 0));
  const letters = (pieces: readonly Piece[]) => pieces.reduce((sum, piece) => sum + piece.letters, 0);
  const all = answers.flatMap(({ pieces }) => pieces);
  const within = letters(all.filter(({ at }) => at > from && at <= upTo));
  return upTo > from ? (1000 * tokens * (within / letters(all))) / (upTo - from) : 0;
}

async function together(): Promise<Outcome> {
  const began = performance.now();
  const answers = await Promise.all(
    Array.from({ length: job.clients }, (_, i) => {
      const messages = [{ role: "user", content: `${salt()} ${String(i).padStart(3, "0")} tell` }];
      return ask("/chat/completions", { messages, max_tokens: job.tokens, seed: i + 1 });
    }),
  );
  const seconds = (performance.now() - began) / 1000;
  const tokens = answers.reduce((sum, { usage }) => sum + usage.completion_tokens, 0);
  return {
    perSecond: tokens / seconds,
    steadyPerSecond: steadyRate(answers, tokens),
    tokens,
    promptTokens: answers[0]?.usage.prompt_tokens ?? 0,
    firstMs: answers[0]?.firstMs ?? 0,
  };
}

/** Different from the first letter on: nothing of a prompt is in the cache already. */
async function one(): Promise<First> {
  const { firstMs, usage } = await ask("/completions", { prompt: salt() + salt() + salt(), max_tokens: 2, seed: 1 });
  return { firstMs, promptTokens: usage.prompt_tokens };
}

const salt = () => crypto.getRandomValues(new Uint32Array(1))[0]!.toString(36).padStart(7, "q").slice(0, 7);
if (job.clients > 0) console.log(JSON.stringify(await together()));
else {
  for (let i = 0; i < 3; i++) await one(); // warm
  for await (const line of console) if (line) console.log(JSON.stringify(await one()));
}
