/** The last `maxBytes` of a stream, as text. Holds exactly that much memory however much is pushed. */
export function createTail(maxBytes: number) {
  const ring = new Uint8Array(maxBytes);
  let total = 0;
  return {
    push(chunk: Uint8Array) {
      const kept = chunk.subarray(Math.max(0, chunk.length - maxBytes));
      const at = (total + chunk.length - kept.length) % maxBytes;
      const first = kept.subarray(0, maxBytes - at);
      ring.set(first, at);
      ring.set(kept.subarray(first.length), 0);
      total += chunk.length;
    },
    /** Bytes pushed so far. */
    get total() {
      return total;
    },
    text(): string {
      if (total <= maxBytes) return decode(ring.subarray(0, total));
      const at = total % maxBytes;
      return fromWholeWord(decode(Buffer.concat([ring.subarray(at), ring.subarray(0, at)])));
    },
  };
}

const CONTINUATION = (byte: number | undefined) => byte !== undefined && (byte & 0xc0) === 0x80;

/** Characters cut in half at either end are dropped; broken ones inside become U+FFFD. */
function decode(bytes: Uint8Array): string {
  let from = 0;
  while (from < 3 && CONTINUATION(bytes[from])) from++;
  return new TextDecoder().decode(bytes.subarray(from), { stream: true });
}

/** The beginning was cut: half a key would no longer look like one to the redaction, so the cut word goes too. */
function fromWholeWord(text: string): string {
  const newline = text.indexOf("\n");
  return text.slice((newline >= 0 ? newline : text.search(/\s/)) + 1 || text.length);
}
