/** Maximum completions whose keys and values are held at once; a GPU needs many to be busy. */
const MOST = { cpu: 32, cuda: 256 } as const;

/** Returns how many completions of a generation are decoded together; the others wait for a slot. */
export function rolloutSlots(generationBatchSize: number, device: keyof typeof MOST, microDivisor: number): number {
  return Math.max(1, Math.floor(Math.min(generationBatchSize, MOST[device]) / microDivisor));
}
