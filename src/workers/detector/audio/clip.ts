/** A recording while it is decoded: mixed to one channel, and never longer than allowed. */
export type Clip = { samples: Float32Array; sampleRate: number; channels: number };

/** The file is at fault. */
export class AudioError extends Error {
  constructor(
    message: string,
    readonly tooLong = false,
  ) {
    super(message);
    this.name = "AudioError";
  }
}

export const MAX_SAMPLES = 30e6; // more than ten minutes at 48 kHz
const RATES = [4_000, 384_000] as const;

export function checkShape(sampleRate: number, channels: number) {
  if (!(sampleRate >= RATES[0] && sampleRate <= RATES[1]))
    throw new AudioError(`The sample rate of ${sampleRate} Hz is not supported. Use ${RATES[0]} to ${RATES[1]} Hz`);
  if (!(channels >= 1 && channels <= 8))
    throw new AudioError(`The clip has ${channels} channels. Send 1 to 8 channels`);
}

export class Recorder {
  #samples = new Float32Array(1 << 16);
  #length = 0;

  /** Returns room for `count` more samples, to be written at once. */
  extend(count: number): Float32Array {
    const length = this.#length + count;
    if (length > MAX_SAMPLES)
      throw new AudioError(`The clip has more than ${MAX_SAMPLES / 1e6} million samples. Send a shorter clip`, true);
    if (length > this.#samples.length) {
      const larger = new Float32Array(Math.min(MAX_SAMPLES, Math.max(length, this.#samples.length * 2)));
      larger.set(this.#samples.subarray(0, this.#length));
      this.#samples = larger;
    }
    const room = this.#samples.subarray(this.#length, length);
    this.#length = length;
    return room;
  }

  get samples(): Float32Array {
    return this.#samples.subarray(0, this.#length);
  }
}
