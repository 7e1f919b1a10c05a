/**
 * Follows the frames of a Zstandard stream (RFC 8878) without decompressing them, to detect a truncated stream. Bun's
 * decompressor takes a truncated stream for a complete one.
 */
const MAGIC = 0xfd2fb528;
const SKIPPABLE = 0x184d2a50; // to 0x184d2a5f
const DICTIONARY_BYTES = [0, 1, 2, 4];
const SIZE_BYTES = [0, 2, 4, 8];

type State = "magic" | "skippable" | "header" | "block";
const NEEDED: Record<State, number> = { magic: 4, skippable: 4, header: 1, block: 3 };

export class ZstdFrames {
  private state: State = "magic";
  private readonly head: number[] = [];
  private skip = 0;
  private checksum = false;

  get whole() {
    return this.state === "magic" && this.head.length === 0 && this.skip === 0;
  }

  push(bytes: Uint8Array) {
    for (let at = 0; at < bytes.byteLength; ) {
      if (this.skip > 0) {
        const step = Math.min(this.skip, bytes.byteLength - at);
        this.skip -= step;
        at += step;
        continue;
      }
      this.head.push(bytes[at++]!);
      if (this.head.length < NEEDED[this.state]) continue;
      const value = this.head.reduceRight((sum, byte) => sum * 256 + byte, 0);
      this.head.length = 0;
      this.step(value);
    }
  }

  private step(value: number) {
    switch (this.state) {
      case "magic":
        this.state = value === MAGIC ? "header" : "skippable";
        if (value !== MAGIC && (value & 0xfffffff0) !== SKIPPABLE) throw new Error("it is not a Zstandard stream");
        return;
      case "skippable":
        this.skip = value;
        this.state = "magic";
        return;
      case "header":
        this.skip = headerBytes(value);
        this.checksum = (value & 4) !== 0;
        this.state = "block";
        return;
      case "block": {
        const isRun = ((value >> 1) & 3) === 1;
        const isLast = (value & 1) === 1;
        this.skip = (isRun ? 1 : value >> 3) + (isLast && this.checksum ? 4 : 0);
        if (isLast) this.state = "magic";
      }
    }
  }
}

/** Returns the bytes of the header after the descriptor. */
function headerBytes(descriptor: number): number {
  const isSingle = (descriptor & 0x20) !== 0;
  const size = descriptor >> 6;
  return (isSingle ? 0 : 1) + DICTIONARY_BYTES[descriptor & 3]! + (size === 0 && isSingle ? 1 : SIZE_BYTES[size]!);
}
