/**
 * Answers of the chat and completion routes in the format of another client. The answer is relayed as it comes: a client
 * that leaves cancels the source, which ends the work in the worker.
 */
export type Translator<Whole, Chunk> = {
  /** A whole answer as JSON. */
  whole: (answer: Whole) => object | Promise<object>;
  /** The content type of a stream. Default: server-sent events. */
  streamType?: string;
  /** The text for a chunk of a stream. */
  chunk: (chunk: Chunk) => string;
  /** The text after the last chunk. */
  end: () => string | Promise<string>;
  /** The text for an error that ends a stream. `code`: as a client of OpenAI reads it. `sent`: the whole event. */
  error: (message: string, code: string | undefined, sent?: object) => string;
  /** The text for a comment, which shows that the server still works. Default: the comment. */
  ping?: string;
};

/** `response`: an answer of /chat/completions or /completions. Errors pass: they have the format of the route already. */
export async function translated<Whole, Chunk>(
  response: Response,
  translator: Translator<Whole, Chunk>,
): Promise<Response> {
  if (response.status >= 400) return response;
  const headers = new Headers(response.headers);
  if (!headers.get("content-type")?.startsWith("text/event-stream")) {
    headers.set("content-type", "application/json");
    return new Response(JSON.stringify(await translator.whole((await response.json()) as Whole)), { headers });
  }
  headers.set("content-type", translator.streamType ?? "text/event-stream");
  return new Response(translatedStream(response.body as ReadableStream<Uint8Array>, translator), { headers });
}

type Shown = { error?: { message?: string; code?: string } };

function translatedStream<Whole, Chunk>(
  source: ReadableStream<Uint8Array>,
  translator: Translator<Whole, Chunk>,
): ReadableStream<Uint8Array> {
  const reader = source.getReader();
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  let held = "";
  let failed = false;
  const textOf = (line: string): string | Promise<string> => {
    if (failed) return "";
    if (line.startsWith(":")) return translator.ping ?? `${line}\n\n`;
    if (!line.startsWith("data: ")) return "";
    if (line === "data: [DONE]") return translator.end();
    const chunk = JSON.parse(line.slice(6)) as Chunk & Shown;
    if (!chunk.error) return translator.chunk(chunk);
    failed = true;
    return translator.error(chunk.error.message ?? "The request failed", chunk.error.code, chunk);
  };
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        const lines = (held + decoder.decode(value, { stream: true })).split("\n");
        held = lines.pop() ?? "";
        let text = "";
        for (const line of lines) text += await textOf(line);
        if (text === "") continue;
        return controller.enqueue(encoder.encode(text));
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}
