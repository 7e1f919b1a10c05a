type Answer = { stream: AsyncIterable<Uint8Array> };

/** Reads the body as text, at most `limit` bytes: an answer of unknown size must not fill the memory. */
export async function readText(response: Answer, limit = 1_000_000): Promise<string> {
  return new TextDecoder().decode(await readBytes(response, limit));
}

export async function readBytes(response: Answer, limit: number): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of response.stream) {
    parts.push(part.subarray(0, limit - bytes));
    bytes += part.byteLength;
    if (bytes >= limit) break; // leaving the loop cancels the stream
  }
  return new Uint8Array(Buffer.concat(parts));
}
