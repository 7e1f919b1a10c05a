/** Decodes MP3 with libmpg123 in WebAssembly. The lane's timeout ends a file that makes it loop for ever. */

import { afterId3 } from "../../../lib/detection/sniff.ts";
import { AudioError, type Clip, checkShape, Recorder } from "./clip.ts";

const CHUNK_BYTES = 64 << 10;
const MONO = 3; // the mode of an MPEG frame

/** Not destructured: the bundler would remove an export that the package itself still uses. */
const load = async (): Promise<typeof import("mpg123-decoder")> => await import("mpg123-decoder");

/** The decoder returns two channels, which are equal for a mono file. */
export async function readMp3(bytes: Uint8Array): Promise<Clip> {
  const mpeg = await load();
  const decoder = new mpeg.MPEGDecoder();
  await decoder.ready;
  const recorder = new Recorder();
  let sampleRate = 0;
  try {
    for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
      const decoded = decoder.decode(bytes.subarray(at, at + CHUNK_BYTES));
      const [left, right] = decoded.channelData;
      if (decoded.samplesDecoded === 0 || !left || !right) continue;
      if (sampleRate !== 0 && decoded.sampleRate !== sampleRate)
        throw new AudioError("The MP3 changes its sample rate in the middle");
      sampleRate = decoded.sampleRate;
      const room = recorder.extend(decoded.samplesDecoded);
      for (let i = 0; i < room.length; i++) room[i] = (left[i]! + right[i]!) / 2;
    }
  } finally {
    decoder.free();
  }
  if (recorder.samples.length === 0) throw new AudioError("The MP3 has no samples");
  const channels = (bytes[afterId3(bytes) + 3] ?? 0) >> 6 === MONO ? 1 : 2;
  checkShape(sampleRate, channels);
  return { samples: recorder.samples, sampleRate, channels };
}
