/** A file as text: base64, with or without the beginning of a data: URL, white space and padding. */
const DATA_URL = /^data:[^,]{0,200},/i;

/** Its size is judged by the length of the text, before anything is decoded. */
export function decodeBase64(text: string, maxBytes: number): Uint8Array<ArrayBuffer> | "too_large" | "malformed" {
  const prefix = text.startsWith("data:") || text.startsWith("DATA:") ? DATA_URL.exec(text)?.[0] : "";
  if (prefix === undefined || (prefix !== "" && !/;base64,$/i.test(prefix))) return "malformed";
  let rest = prefix === "" ? text : text.slice(prefix.length);
  if (/\s/.test(rest)) rest = rest.replaceAll(/\s+/g, "");
  const digits = rest.length - (rest.endsWith("==") ? 2 : rest.endsWith("=") ? 1 : 0);
  const size = Math.floor((digits * 3) / 4);
  if (size > maxBytes) return "too_large";
  if (digits === 0 || digits % 4 === 1) return "malformed";
  if (digits !== rest.length && rest.length % 4 !== 0) return "malformed";
  const bytes = Buffer.from(rest, "base64");
  return bytes.length === size ? new Uint8Array(bytes.buffer, bytes.byteOffset, size) : "malformed"; // the decoder skips what it does not know
}
