const TURN_MS = 8;

const waiting: (() => void)[] = [];

/** One for each turn of the event loop, however many there are: the others are not kept longer for that. */
function next() {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(next);
}

/** For long work on the serving thread: what it returns is awaited between two pieces, and lets others in when it is time. */
export function takingTurns(): () => Promise<void> | undefined {
  let begun = performance.now();
  return () => {
    if (performance.now() - begun < TURN_MS) return undefined;
    return new Promise((resolve) => {
      waiting.push(() => {
        begun = performance.now();
        resolve();
      });
      if (waiting.length === 1) setImmediate(next);
    });
  };
}
