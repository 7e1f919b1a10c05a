/** The answer of a request whose deployment captures content. It is read after the request has ended. */
import type { ToolCallDelta } from "../../../lib/chat/chat_completion.ts";

const MAX_BYTES = 2 * 1024 * 1024; // beyond it the answer is not captured

type Message = { role: "assistant"; content: string; tool_calls?: { function: { name: string; arguments: string } }[] };
type Chunk = {
  choices?: { index: number; text?: string; delta?: { content?: string | null; tool_calls?: ToolCallDelta[] } }[];
};
type Whole = { choices?: { message?: { tool_calls?: Message["tool_calls"] | undefined }; text?: string }[] };

export class CapturedOutput {
  #chunks: Uint8Array[] = [];
  #text: string | undefined;
  #bytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  add(chunk: Uint8Array) {
    this.#bytes += chunk.byteLength;
    if (this.#bytes > MAX_BYTES) this.#chunks = [];
    else this.#chunks.push(chunk);
  }

  set(text: string) {
    this.#bytes = text.length;
    if (text.length <= MAX_BYTES) this.#text = text;
  }

  /** The messages or texts of the answer; null if there are none. */
  read(): { output: unknown; toolCalls: string[] } {
    const output =
      this.#text === undefined ? readStream(Buffer.concat(this.#chunks).toString()) : readWhole(this.#text);
    const calls = (output ?? []).flatMap((each) => (typeof each === "object" ? (each.tool_calls ?? []) : []));
    return { output: output ?? null, toolCalls: calls.map((call) => call.function.name) };
  }
}

type Output = (string | { tool_calls?: Message["tool_calls"] | undefined })[];

function readWhole(text: string): Output | undefined {
  const { choices } = JSON.parse(text) as Whole;
  return choices?.map(({ message, text: said }) => message ?? said ?? "");
}

/** Puts the deltas of a stream together. A stream that broke off gives what had come. */
function readStream(text: string): Output | undefined {
  const found: (Message | string)[] = [];
  for (const line of text.split("\n")) {
    if (!line.startsWith("data: {")) continue;
    const chunk = parse(line.slice(6));
    for (const { index, text: said, delta } of chunk?.choices ?? []) {
      if (delta === undefined) found[index] = `${(found[index] as string | undefined) ?? ""}${said ?? ""}`;
      else addDelta(messageAt(found, index), delta);
    }
  }
  return found.length === 0 ? undefined : found;
}

function messageAt(found: (Message | string)[], index: number): Message {
  const message = (found[index] as Message | undefined) ?? { role: "assistant", content: "" };
  found[index] = message;
  return message;
}

function addDelta(
  message: Message,
  { content, tool_calls: calls }: { content?: string | null; tool_calls?: ToolCallDelta[] },
) {
  message.content += content ?? "";
  for (const {
    index,
    function: { name = "", arguments: given = "" },
  } of calls ?? []) {
    message.tool_calls ??= [];
    const call = message.tool_calls[index] ?? { function: { name: "", arguments: "" } };
    call.function.name += name;
    call.function.arguments += given;
    message.tool_calls[index] = call;
  }
}

/** The last line of a stream that broke off may be cut. */
function parse(json: string): Chunk | undefined {
  try {
    return JSON.parse(json) as Chunk;
  } catch {
    return undefined;
  }
}
