/** Server-sent events of a server that is not trusted. */
export type ServerEvent = { data: string; id: string | undefined; retryMs: number | undefined };

export class EventError extends Error {
  override readonly name = "EventError";
}

/** Throws EventError if one event has more than `mostBytes`, or all together more than `mostAll`. */
export async function* readServerEvents(
  source: ReadableStream<Uint8Array>,
  { mostBytes, mostAll }: { mostBytes: number; mostAll: number },
): AsyncGenerator<ServerEvent> {
  const reader = source.getReader();
  const decoder = new TextDecoder();
  let held = "";
  let all = 0;
  let event: { data: string[]; id: string | undefined; retryMs: number | undefined } = blank();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      all += value.byteLength;
      if (all > mostAll) throw new EventError(`sent more than ${mostAll} bytes`);
      const lines = (held + decoder.decode(value, { stream: true })).split(/\r?\n/);
      held = lines.pop() ?? "";
      for (const line of lines) {
        if (line !== "") add(event, line);
        else {
          yield { ...event, data: event.data.join("\n") };
          event = blank();
        }
      }
      if (held.length + lengthOf(event.data) > mostBytes)
        throw new EventError(`sent an event of more than ${mostBytes} bytes`);
    }
  } finally {
    await reader.cancel().catch(() => {}); // the rest has no reader
  }
}

const blank = () => ({ data: [] as string[], id: undefined, retryMs: undefined });
const lengthOf = (lines: readonly string[]) => lines.reduce((sum, line) => sum + line.length, 0);

function add(event: { data: string[]; id: string | undefined; retryMs: number | undefined }, line: string) {
  const [, field, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
  if (field === "data") event.data.push(value);
  if (field === "id" && !value.includes("\0")) event.id = value;
  if (field === "retry" && /^\d{1,9}$/.test(value)) event.retryMs = Number(value);
}
