/** Recognizes a file by its first bytes. Its name and content type are ignored. */
export type ImageFormat = "jpeg" | "png" | "webp" | "gif";
export type AudioFormat = "wav" | "flac" | "mp3";
export type Sniffed = { kind: "image"; format: ImageFormat } | { kind: "audio"; format: AudioFormat };

const PNG = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];

export function sniff(bytes: Uint8Array): Sniffed | null {
  if (startsWith(bytes, [0xff, 0xd8, 0xff])) return { kind: "image", format: "jpeg" };
  if (startsWith(bytes, PNG)) return { kind: "image", format: "png" };
  if (hasText(bytes, 0, "GIF87a") || hasText(bytes, 0, "GIF89a")) return { kind: "image", format: "gif" };
  if (hasText(bytes, 0, "RIFF") && hasText(bytes, 8, "WEBP")) return { kind: "image", format: "webp" };
  if (hasText(bytes, 0, "RIFF") && hasText(bytes, 8, "WAVE")) return { kind: "audio", format: "wav" };
  const at = afterId3(bytes); // a tag that players put in front of MP3, and some in front of FLAC
  if (hasText(bytes, at, "fLaC")) return { kind: "audio", format: "flac" };
  if (isMp3Frame(bytes, at) || (at > 0 && at < bytes.length)) return { kind: "audio", format: "mp3" };
  return null;
}

export const startsWith = (bytes: Uint8Array, head: readonly number[]) => head.every((byte, i) => bytes[i] === byte);

export function hasText(bytes: Uint8Array, at: number, text: string): boolean {
  for (let i = 0; i < text.length; i++) if (bytes[at + i] !== text.charCodeAt(i)) return false;
  return true;
}

export function afterId3(bytes: Uint8Array): number {
  if (!hasText(bytes, 0, "ID3") || bytes.length < 10) return 0;
  const [a, b, c, d] = [bytes[6]!, bytes[7]!, bytes[8]!, bytes[9]!];
  if ((a | b | c | d) & 0x80) return 0;
  return 10 + ((a << 21) | (b << 14) | (c << 7) | d);
}

/** A header of MPEG audio, layer III, that can be. */
function isMp3Frame(bytes: Uint8Array, at: number): boolean {
  const [a = 0, b = 0, c = 0] = [bytes[at], bytes[at + 1], bytes[at + 2]];
  const [version, layer, bitrate, rate] = [(b >> 3) & 3, (b >> 1) & 3, c >> 4, (c >> 2) & 3];
  return a === 0xff && b >> 5 === 7 && version !== 1 && layer === 1 && bitrate !== 0 && bitrate !== 15 && rate !== 3;
}
