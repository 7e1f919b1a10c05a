/** Converts a recording's bytes to the detector's input: one channel, 16 kHz, windows of three seconds. */

import { type AudioFormat, sniff } from "../../../lib/detection/sniff.ts";
import type { Heard } from "../messages.ts";
import { Refusal } from "../refusal.ts";
import { AudioError, type Clip } from "./clip.ts";
import { readFlac } from "./flac.ts";
import { readMp3 } from "./mp3.ts";
import { resample, resampledLength } from "./resample.ts";
import { readWav } from "./wav.ts";
import { planWindows, RATE, WINDOW } from "./windows.ts";

const LEAST_SAMPLES = RATE / 4;

const READERS: Record<AudioFormat, (bytes: Uint8Array) => Clip | Promise<Clip>> = {
  wav: readWav,
  flac: readFlac,
  mp3: readMp3,
};

export async function readClip(bytes: Uint8Array): Promise<Omit<Heard, "isSpeech">> {
  const sniffed = sniff(bytes);
  if (sniffed?.kind !== "audio")
    throw new Refusal("UNSUPPORTED_FORMAT", "The file is not a WAV, FLAC or MP3. Send one of these formats");
  try {
    const clip = await READERS[sniffed.format](bytes);
    return { ...cutWindows(clip), format: sniffed.format };
  } catch (error) {
    if (!(error instanceof AudioError)) throw error;
    throw new Refusal(error.tooLong ? "IMAGE_TOO_LARGE" : "INVALID_IMAGE", error.message, { cause: error });
  }
}

export function cutWindows({ samples, sampleRate, channels }: Clip): Omit<Heard, "format" | "isSpeech"> {
  const length = resampledLength(samples.length, sampleRate);
  if (length < LEAST_SAMPLES)
    throw new AudioError("The clip is shorter than a quarter of a second. Send a longer clip");
  const starts = planWindows(length);
  const windows = new Float32Array(starts.length * WINDOW);
  for (const [i, start] of starts.entries()) {
    const heard = resample(samples, sampleRate, start, Math.min(WINDOW, length));
    for (let at = 0; at < WINDOW; at += heard.length)
      windows.set(heard.subarray(0, Math.min(heard.length, WINDOW - at)), i * WINDOW + at);
  }
  return { windows, count: starts.length, seconds: samples.length / sampleRate, sampleRate, channels };
}
