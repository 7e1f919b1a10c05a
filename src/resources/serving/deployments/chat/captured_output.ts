/** The answer of a request whose deployment captures content. It is read after the request has ended. */
import type { ToolCallDelta } from "../../../../lib/chat/chat_completion.ts";
import { type CustomCall, functionCallOf } from "../../../../lib/chat/messages.ts";

const MAX_CHARACTERS = 1024 * 1024; // a longer answer is not captured
const BATCH_BYTES = 64 * 1024; // a stream is many times as long as its text, so it is read in parts

type ToolCall = { id?: string; type: "function"; function: { name: string; arguments: string } };
type Message = { role: "assistant"; content: string; reasoning_content?: string; tool_calls?: ToolCall[] };
type Delta = { content?: string | null; reasoning_content?: string; tool_calls?: ToolCallDelta[] };
type Chunk = { choices?: { index: number; text?: string; delta?: Delta }[] };
type WholeMessage = { tool_calls?: (ToolCall | CustomCall)[] | undefined };
type Whole = { choices?: { message?: WholeMessage; text?: string }[] };
type Output = (string | { tool_calls?: ToolCall[] | undefined })[];

export class CapturedOutput {
  #whole: string | undefined;
  #chunks: Uint8Array[] = [];
  #chunkBytes = 0;
  readonly #decoder = new TextDecoder();
  #line = "";
  readonly #choices: (Message | string)[] = [];
  #characters = 0;

  /** About the size in memory. */
  get bytes(): number {
    return (this.#whole?.length ?? 0) + this.#chunkBytes + this.#characters;
  }

  /** A part of a streamed answer. */
  add(chunk: Uint8Array) {
    if (this.#isTooLong()) return;
    this.#chunks.push(chunk);
    this.#chunkBytes += chunk.byteLength;
    if (this.#chunkBytes > BATCH_BYTES) this.#readChunks();
  }

  /** A whole answer. */
  set(text: string) {
    this.#characters = text.length;
    if (!this.#isTooLong()) this.#whole = text;
  }

  /** The messages or texts of the answer; null if there are none. Undefined: the answer is too long. */
  read(): { output: unknown; toolCalls: string[] } | undefined {
    this.#readChunks();
    if (this.#isTooLong()) return undefined;
    const output = this.#whole === undefined ? this.#choices : readWhole(this.#whole);
    const calls = output.flatMap((each) => (typeof each === "object" ? (each.tool_calls ?? []) : []));
    return { output: output.length === 0 ? null : output, toolCalls: calls.map((call) => call.function.name) };
  }

  #isTooLong(): boolean {
    return this.#characters > MAX_CHARACTERS;
  }

  #readChunks() {
    const text = this.#line + this.#decoder.decode(Buffer.concat(this.#chunks), { stream: true });
    this.#chunks = [];
    this.#chunkBytes = 0;
    const lines = text.split("\n");
    this.#line = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data: {")) this.#addChunk(JSON.parse(line.slice(6)) as Chunk);
  }

  #addChunk({ choices = [] }: Chunk) {
    for (const { index, text = "", delta } of choices) {
      this.#characters += text.length + (delta ? lengthOf(delta) : 0);
      const choice = this.#choices[index];
      if (delta === undefined) this.#choices[index] = `${typeof choice === "string" ? choice : ""}${text}`;
      else {
        const message: Message = typeof choice === "object" ? choice : { role: "assistant", content: "" };
        this.#choices[index] = message;
        addDelta(message, delta);
      }
    }
  }
}

const readWhole = (text: string): Output =>
  (JSON.parse(text) as Whole).choices?.map(({ message, text: said }) => (message ? plain(message) : (said ?? ""))) ??
  [];

/** Rows of datasets know calls of functions alone. */
const plain = ({ tool_calls: calls, ...message }: WholeMessage) =>
  calls ? { ...message, tool_calls: calls.map(functionOf) } : message;
const functionOf = <T extends ToolCall | ToolCallDelta>(call: T | CustomCall) =>
  "custom" in call ? functionCallOf(call) : (call as Exclude<T, { type: "custom" }>);

const lengthOf = ({ content, reasoning_content: thoughts = "", tool_calls: calls = [] }: Delta) =>
  calls.reduce(
    (sum, call) => sum + ("custom" in call ? call.custom.input : (call.function.arguments ?? "")).length,
    (content?.length ?? 0) + thoughts.length,
  );

function addDelta(message: Message, { content, reasoning_content: thoughts, tool_calls: calls = [] }: Delta) {
  message.content += content ?? "";
  if (thoughts) message.reasoning_content = `${message.reasoning_content ?? ""}${thoughts}`;
  for (const delta of calls) {
    const { index, id } = delta;
    const part: { name?: string | undefined; arguments?: string | undefined } = functionOf(delta).function;
    message.tool_calls ??= [];
    const call = message.tool_calls[index];
    message.tool_calls[index] = {
      ...(id === undefined ? call : { ...call, id }),
      type: "function",
      function: {
        name: `${call?.function.name ?? ""}${part.name ?? ""}`,
        arguments: `${call?.function.arguments ?? ""}${part.arguments ?? ""}`,
      },
    };
  }
}
