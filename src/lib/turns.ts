const TURN_MS = 8;

/** For long work on the serving thread: what it returns is awaited between two pieces, and lets others in when it is time. */
export function takingTurns(ms = TURN_MS): () => Promise<void> | undefined {
  let begun = performance.now();
  return () => {
    if (performance.now() - begun < ms) return undefined;
    return new Promise((resolve) =>
      setImmediate(() => {
        begun = performance.now();
        resolve();
      }),
    );
  };
}
