/** Keys and values of so many completions are held at once; a GPU is only busy with many. */
const MOST = { cpu: 32, cuda: 256 } as const;

/** The number of completions of a generation that are decoded together; the others wait for a slot. */
export function rolloutSlots(generationBatchSize: number, device: keyof typeof MOST, microDivisor: number): number {
  return Math.max(1, Math.floor(Math.min(generationBatchSize, MOST[device]) / microDivisor));
}
